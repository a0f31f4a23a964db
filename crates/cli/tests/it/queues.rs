//! `uniqueue queue` and `uniqueue periodic`, from the outside.

mod listing;
mod periodic;
mod settings;
