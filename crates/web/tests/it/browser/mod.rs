//! Journeys in a real Chromium. Without `chromium` and `chromedriver` they say aloud that they tested
//! nothing. Where `UNIQUEUE_TOOLS` names `chromedriver`, that is a failure.

mod accessible;
mod actions;
mod driver;
mod journey;
mod journeys;
mod live;
mod pictures;
mod scene;
mod service;
mod trouble;
