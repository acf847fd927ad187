//! The feed of a scenario: rows of values from a file or of a city, one row a message.

use crate::config::{Feed, Message};
use crate::context::Context;
use plimsoll_template::city::{self, City};
use plimsoll_template::{Columns, Table, Texts, read_texts};
use std::sync::Arc;

/// A feed that was read: its columns and its rows.
pub(super) struct Read {
    columns: Vec<String>,
    rows: Rows,
}

enum Rows {
    Texts(Arc<Texts>),
    City(City),
}

/// Reads the feed that the scenario names; `None` without one, or where it cannot be read, which is reported.
pub(super) fn read(message: &Message, seed: u64, context: &mut Context<'_>) -> Option<Read> {
    const FEED: &str = "message.feed";
    let help = "write `feed: { file: rows.csv }` or `feed: { city: {} }`";
    match message.feed.as_ref()? {
        Feed { file: Some(file), city: None } => {
            let texts = match context.parsed.feeds.get(file, || read_file(file, context)) {
                Ok(texts) => texts,
                Err(reason) => {
                    context.error("message.feed.file", reason);
                    return None;
                }
            };
            Some(Read { columns: texts.columns.clone(), rows: Rows::Texts(texts) })
        }
        Feed { file: None, city: Some(written) } => {
            let city = City::new(written.segments, seed);
            Some(Read { columns: city::COLUMNS.map(str::to_owned).to_vec(), rows: Rows::City(city) })
        }
        Feed { file: Some(_), city: Some(_) } => {
            context.error_with_help(FEED, "a feed is either a file or a city", help);
            None
        }
        Feed { file: None, city: None } => {
            context.error_with_help(FEED, "the feed has neither a file nor a city", help);
            None
        }
    }
}

fn read_file(file: &str, context: &Context<'_>) -> Result<Arc<Texts>, String> {
    let text = (context.environment.profile)(file);
    let text = text.map_err(|reason| format!("cannot read the feed `{file}`: {reason}"))?;
    read_texts(file, &text).map(Arc::new)
}

impl Read {
    /// The names of the columns.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows as so many devices take them, the first of which has that number.
    pub(super) fn table(self, first_device: u32, devices: u32) -> Arc<dyn Columns> {
        match self.rows {
            Rows::City(city) => Arc::new(city::Rows { city, first_device, devices }),
            Rows::Texts(texts) => Arc::new(Table::new(texts, first_device, devices)),
        }
    }
}
