//! Writing the catalogue: every change is merged, checked against the rest of the catalogue,
//! and committed whole or not at all; with who, when, before and after.

mod ads;
mod change;
mod check;
mod import;
mod mask;
mod object;
mod plan;
mod problem;
mod query;

use std::sync::Arc;

use slotwise_core::index::Index;

pub use change::{STATUS_WANTED, StatusChange};
pub use check::{Checker, NO_COUNTRY, NO_DEVICE_TYPE, NO_LANGUAGE, NO_REGION, change_of};
pub use import::{ImportOptions, ImportOutcome};
pub use object::{Object, owner_of_row, record_from, status_from};
pub use problem::{CatalogError, Problem};
pub use query::{ListRequest, Page, decode_token, encode_token, page_size};

use crate::ports::{CatalogStore, Clock};

/// The catalogue as it is written and asked; see [`crate::refresh`] for how it is served.
pub struct Catalog {
    store: Arc<dyn CatalogStore>,
    index: Arc<Index>,
    clock: Arc<dyn Clock>,
    /// Writers of one node go one after another, so that they do not make each other try again.
    writing: tokio::sync::Mutex<()>,
}

impl Catalog {
    /// A catalogue kept in `store` and served from `index`.
    pub fn new(store: Arc<dyn CatalogStore>, index: Arc<Index>, clock: Arc<dyn Clock>) -> Self {
        Self { store, index, clock, writing: tokio::sync::Mutex::new(()) }
    }

    /// Where it is kept.
    pub fn store(&self) -> &Arc<dyn CatalogStore> {
        &self.store
    }
}
