//! `uniqueue job`, from the outside.

mod changing;
mod inserting;
mod listing;
mod showing;
