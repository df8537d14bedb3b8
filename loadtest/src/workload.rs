//! What is asked for, and of what: a catalogue and requests that follow from a few numbers and a
//! seed, the same each time. Whoever knows them knows what a right answer is.

pub(crate) mod catalogue;
pub(crate) mod encode;
pub(crate) mod records;
pub(crate) mod requests;

pub(crate) use catalogue::Catalogue;
pub(crate) use requests::{Pool, Visitors};

use clap::Args;

/// How large the catalogue is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The catalogue (alike for prepare and for a load)")]
pub(crate) struct Shape {
    /// Zones, spread over the sites
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) zones: u32,
    /// Ads in each zone
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) ads: u32,
    /// Keywords of each ad, drawn as those of the requests are
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) ad_keywords: u32,
    /// Words that keywords are drawn from
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=60_000))]
    pub(crate) words: u32,
    /// Exponent of the Zipf distribution of the words: 0 draws all alike
    #[arg(long, default_value_t = 1.0, value_name = "X", value_parser = exponent)]
    pub(crate) word_zipf: f64,
    /// Campaigns; every second one has a cap
    #[arg(long, default_value_t = 5_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) campaigns: u32,
    /// Showings of a capped campaign that one visitor may have in 24 hours
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) cap: u32,
    /// Sites
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sites: u32,
    /// Seed of the catalogue
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    pub(crate) catalogue_seed: u64,
}

/// What is asked for.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The requests")]
pub(crate) struct Asking {
    /// Keywords of each request
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) keywords: u32,
    /// Ads that each request asks for
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) count: u32,
    /// Visitors that come again and again
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) visitors: u32,
    /// Exponent of the Zipf distribution of the visitors: 0 draws all alike; at 1 the first of a
    /// million is one request of 14
    #[arg(long, default_value_t = 0.8, value_name = "X", value_parser = exponent)]
    pub(crate) visitor_zipf: f64,
    /// Share of requests, 0 to 1, from a visitor who was never seen before
    #[arg(long, default_value_t = 0.02, value_name = "SHARE", value_parser = share)]
    pub(crate) newcomers: f64,
    /// Share of requests, 0 to 1, that ask for an explanation
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    pub(crate) explain: f64,
    /// Seed of the requests and of the instants at which they are sent
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    pub(crate) seed: u64,
}

/// A number from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    (0.0..=1.0).contains(&share).then_some(share).ok_or("not from 0 to 1".to_owned())
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    (0.0..=5.0).contains(&exponent).then_some(exponent).ok_or("not from 0 to 5".to_owned())
}

/// The account that owns all of it.
pub(crate) const ACCOUNT: &str = "load";

/// The site of a zone.
pub(crate) fn site(shape: &Shape, zone: u32) -> String {
    format!("site-{:02}", zone % shape.sites)
}

/// A zone.
pub(crate) fn zone(zone: u32) -> String {
    format!("zone-{zone:04}")
}

/// A word.
pub(crate) fn word(word: u32) -> String {
    format!("word{word:04}")
}

/// A campaign; ten belong to one advertiser.
pub(crate) fn campaign(campaign: u32) -> String {
    format!("adv{:04}:c{campaign:05}", campaign / 10)
}

/// An ad, of which its name says where it stands.
pub(crate) fn ad_unit(zone: u32, number: u32) -> String {
    format!("z{zone}-{number}")
}

/// Where a click on an ad leads.
pub(crate) fn landing_url(campaign_id: &str, ad_unit_id: &str, token: &str) -> String {
    format!("https://landing.example/{campaign_id}/{ad_unit_id}?t={token}")
}

/// Whether a campaign has a cap.
pub(crate) fn is_capped(campaign: u32) -> bool {
    campaign.is_multiple_of(2)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Asking, Shape};

    /// A small catalogue.
    pub(crate) fn shape() -> Shape {
        Shape {
            zones: 5,
            ads: 200,
            ad_keywords: 3,
            words: 100,
            word_zipf: 1.0,
            campaigns: 40,
            cap: 3,
            sites: 2,
            catalogue_seed: 1,
        }
    }

    /// Requests to it.
    pub(crate) fn asking() -> Asking {
        Asking {
            keywords: 3,
            count: 3,
            visitors: 1_000,
            visitor_zipf: 0.8,
            newcomers: 0.1,
            explain: 0.0,
            seed: 1,
        }
    }
}
