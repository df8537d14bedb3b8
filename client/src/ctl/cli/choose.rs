//! The command line of a decision.

use clap::Args;
use jiff::Timestamp;
use slotwise_proto::v1::{RequestContext, Size};

use super::values;
use crate::ctl::money::parse_micros;

const HELP: &str = r#"Nothing is recorded, unless --record says so: then it is a decision as a page
makes it, with tokens, caps and holds.

Examples:
  slotwisectl choose news home-top --keyword car --keyword style --count 3
  slotwisectl choose news home-top --user u-123 --country AT --explain
  slotwisectl choose news home-top --at 2026-12-24T18:00:00Z --seed 7
  slotwisectl choose news home-top --value section=sport --segment auto/new
  slotwisectl choose news home-top --context '{"os":"android"}'
  slotwisectl choose news home-top --record --json"#;

const PAGE_HELP: &str = r#"No ad comes twice, no two advertisers with one competitive label come
together, and caps hold over the whole page. Nothing is recorded, unless
--record says so.

Examples:
  slotwisectl page news/home-top news/home-side=3 --keyword car
  slotwisectl page news/home-top news/home-side=3 --campaign-max 1 --explain"#;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Choose {
    /// The site
    pub(crate) site: String,
    /// The zone on it
    pub(crate) zone: String,
    /// How many ads at most
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) count: u32,
    /// Only ads worth at least this per 1,000 impressions
    #[arg(long, value_name = "AMOUNT", value_parser = parse_micros)]
    pub(crate) floor: Option<i64>,
    /// Only ads of this size (repeatable)
    #[arg(long, value_name = "WxH", value_parser = values::size)]
    pub(crate) size: Vec<Size>,
    #[command(flatten)]
    pub(crate) visit: Visit,
}

#[derive(Debug, Args)]
#[command(after_help = PAGE_HELP)]
pub(crate) struct Page {
    /// A zone, and how many ads it takes at most (1 unless said)
    #[arg(required = true, value_name = "SITE/ZONE[=N]", value_parser = values::place)]
    pub(crate) places: Vec<values::Place>,
    /// At most so many ads of one campaign; 0: any number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) campaign_max: u32,
    #[command(flatten)]
    pub(crate) visit: Visit,
}

/// Who asks, in what circumstances, and what is wanted of the answer.
#[derive(Debug, Args)]
pub(crate) struct Visit {
    /// The visitor; unknown when left out
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// A word of the page or the search (repeatable)
    #[arg(long)]
    pub(crate) keyword: Vec<String>,
    /// What is known of the visit, for targeting: a RequestContext in protobuf's JSON form
    #[arg(long, value_name = "JSON", value_parser = values::context)]
    context: Option<Box<RequestContext>>,
    /// The visitor's country, such as AT; as all of these, before what --context says
    #[arg(long)]
    country: Option<String>,
    /// The region in it, such as CA
    #[arg(long)]
    region: Option<String>,
    /// phone, tablet, desktop, tv or other
    #[arg(long, value_name = "TYPE")]
    device: Option<String>,
    /// The language, such as de-AT
    #[arg(long)]
    language: Option<String>,
    /// A value of the page, for expressions (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    value: Vec<(String, String)>,
    /// A segment of the visitor, beside the stored ones (repeatable)
    #[arg(long)]
    segment: Vec<String>,
    /// An advertiser that must not be shown (repeatable)
    #[arg(long, value_name = "ADVERTISER")]
    pub(crate) block_advertiser: Vec<String>,
    /// A category that must not be shown, such as IAB25 (repeatable)
    #[arg(long, value_name = "CATEGORY")]
    pub(crate) block_category: Vec<String>,
    /// A domain that must not be shown (repeatable)
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) block_domain: Vec<String>,
    /// The visitor gave no consent: nothing is read or written of them
    #[arg(long)]
    pub(crate) limited: bool,
    /// Fixes every random choice
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Over today's catalogue with the clock at this RFC 3339 instant; budgets and pacing left out
    #[arg(long, value_name = "INSTANT", conflicts_with = "record")]
    pub(crate) at: Option<Timestamp>,
    /// Also say what became of each candidate, and why
    #[arg(long)]
    pub(crate) explain: bool,
    /// How many candidates to explain one by one; all are counted
    #[arg(long, value_name = "N", default_value_t = 20, requires = "explain")]
    pub(crate) explain_max: u32,
    /// Make a real decision: showings are recorded
    #[arg(long)]
    pub(crate) record: bool,
}

impl Visit {
    /// What is known of the visit; nothing where nothing is.
    pub(crate) fn context(&mut self) -> Option<RequestContext> {
        let mut context = self.context.take().map(|context| *context).unwrap_or_default();
        let fields = [
            (&mut context.country, &mut self.country),
            (&mut context.region, &mut self.region),
            (&mut context.device_type, &mut self.device),
            (&mut context.language, &mut self.language),
        ];
        for (field, flag) in fields {
            if let Some(said) = flag.take() {
                *field = said;
            }
        }
        context.values.extend(std::mem::take(&mut self.value));
        context.segments.append(&mut self.segment);
        (context != RequestContext::default()).then_some(context)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        visit: Visit,
    }

    #[test]
    fn flags_come_before_what_the_context_says() {
        let context = r#"{"country":"AT","os":"ios","values":{"a":"1","b":"2"},"segments":["x"]}"#;
        let flags = ["", "--context", context, "--country", "DE", "--value", "b=3=4"];
        let mut line =
            Line::parse_from(flags.into_iter().chain(["--segment", "y", "--device", "tv"]));
        let context = line.visit.context().unwrap();
        assert_eq!((&*context.country, &*context.os, &*context.device_type), ("DE", "ios", "tv"));
        assert_eq!((&*context.values["a"], &*context.values["b"]), ("1", "3=4"));
        assert_eq!(context.segments, ["x", "y"]);
        assert_eq!(Line::parse_from([""]).visit.context(), None);
    }
}
