//! Journeys in a real Chromium. Without `chromium` and `chromedriver` they say aloud that they tested nothing.

mod accessible;
mod actions;
mod driver;
mod ending;
mod journey;
mod pictures;
mod scene;
mod service;
