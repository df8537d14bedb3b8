//! The client of Slotwise, for programs that ask for ads or manage the catalogue. With the feature
//! `ctl` (the default) it also holds `slotwisectl`, the ops tool, which is built on it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), slotwise_client::Error> {
//! # let server = slotwise_server::testing::Server::start().await;
//! # let node = server.decision_addr().to_string();
//! use slotwise_client::v1::ChooseAdsRequest;
//! use slotwise_client::{Decisions, Options};
//!
//! // One client for the whole program: clones share its connections.
//! let decisions = Decisions::connect(&Options::parse([node])?).await?;
//! let request = ChooseAdsRequest {
//!     site_id: "news".into(),
//!     zone_id: "home-top".into(),
//!     user_id: "visitor-1".into(),
//!     ..ChooseAdsRequest::default()
//! };
//! for ad in decisions.choose_ads(request).await?.ads {
//!     println!("{} {} {}", ad.campaign_id, ad.ad_unit_id, ad.score);
//! }
//! # server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - **Connections** are made and kept in the background, several to each address. A call takes
//!   the one with fewest calls on it; one that is broken gets none, and is made anew after a
//!   pause. A dead address slows nobody down while another answers.
//! - **A deadline** is on every call, and the server is told. It covers the wait for a connection
//!   and every repeat.
//! - **A repeat** happens only where it is harmless (see [`Call::repeat`]): a decision that may
//!   have recorded an exposure is asked for again only when the server provably did not read it.
//! - **Who is calling**: a [`Token`] or a client certificate ([`Tls::identity`]). A token never
//!   goes in clear over a network by accident, and neither it nor a key is ever printed.
//!
//! The bounds of all that are in [`limits`].

pub use address::Address;
pub use answers::Answers;
pub use client::{Client, Stub};
pub use decisions::{Chosen, Decisions};
pub use error::Error;
pub use options::Options;
pub use repeat::{Call, Repeat};
pub use slotwise_proto::v1;
pub use tls::Tls;
pub use token::Token;
pub use tonic::{Code, Status};

/// The generated clients, whose methods [`Client::call`] takes.
pub mod stubs {
    pub use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
    pub use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
    pub use slotwise_proto::v1::event_service_client::EventServiceClient;
    pub use slotwise_proto::v1::replay_service_client::ReplayServiceClient;
    pub use slotwise_proto::v1::report_service_client::ReportServiceClient;
    pub use slotwise_proto::v1::user_service_client::UserServiceClient;
    pub use tonic_health::pb::health_client::HealthClient;
}

use tonic::transport::Channel;

/// The catalogue, on the admin door.
pub type Catalog = Client<stubs::CatalogServiceClient<Channel>>;
/// Visitors' profiles, on the admin door.
pub type Users = Client<stubs::UserServiceClient<Channel>>;
/// Counts and bills, on the admin door.
pub type Reports = Client<stubs::ReportServiceClient<Channel>>;
/// Events of another time or another system, on the admin door. Its one call takes a stream:
/// [`Client::send`]. A line counts once, so a file may be sent again as a whole.
pub type Replays = Client<stubs::ReplayServiceClient<Channel>>;
/// What happened to ads after they were chosen, on the event door.
pub type Events = Client<stubs::EventServiceClient<Channel>>;
/// gRPC health, on every door.
pub type Health = Client<stubs::HealthClient<Channel>>;

pub mod limits;

mod address;
mod answers;
mod client;
#[cfg(feature = "ctl")]
pub mod ctl;
mod decisions;
mod error;
mod fate;
mod options;
mod pool;
mod repeat;
mod tls;
mod token;
mod wait;
