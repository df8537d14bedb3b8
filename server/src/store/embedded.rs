//! The default store: SQLite files in the data directory, nothing to install and nothing to run.

mod audit;
mod catalog;
mod commit;
mod counts;
mod database;
mod increments;
mod keys;
mod log;
mod nodes;
mod profiles;

pub use catalog::EmbeddedCatalog;
pub use counts::EmbeddedCounts;
pub use increments::EmbeddedIncrements;
pub use log::EmbeddedLog;
pub use nodes::EmbeddedNodes;
pub use profiles::EmbeddedProfiles;
