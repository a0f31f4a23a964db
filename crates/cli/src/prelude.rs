//! The names that most commands use.

pub(crate) use std::time::Duration;

pub(crate) use clap::{Args, Subcommand, ValueEnum};
pub(crate) use serde::Serialize;
pub(crate) use serde_json::{Value, json};
pub(crate) use time::OffsetDateTime;
pub(crate) use uniqueue::{Client, JobCount, JobFilter, JobId, JobRow, JobState, NewJob, format_duration};
pub(crate) use uniqueue_admin::{Admin, Given};

pub(crate) use crate::arguments::{DurationArgument, JsonArgument, PolicyArgument, TimeArgument, unique_key};
pub(crate) use crate::database::{Database, DatabaseArguments, ask, ask_each};
pub(crate) use crate::exit::{Failure, Verdict, may_have_changed, nothing_changed, or_interrupted, or_unanswered};
pub(crate) use crate::output::{
    self, Answer, Bar, Body, Cell, Column, Form, List, Page, Record, Style, Table, count, format_relative, format_time,
    printable,
};
pub(crate) use crate::own_name::own_name;
