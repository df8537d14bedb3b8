//! Which user agents are known bots: a maintained list of patterns, compiled once.
//!
//! The list is the package crawler-user-agents (see `server/data/crawler-user-agents`). On the
//! machine of BENCHMARKS.md an agent of a usual browser took 0.35 us, a bot's 1.9 us, one of the
//! longest that is looked at 1.6 us.

use regex::bytes::{Regex, RegexBuilder};

use crate::limits::USER_AGENT_BYTES_USED_MAX;

const LIST: &str = include_str!("../data/crawler-user-agents/crawler-user-agents.json");
const VERSION: &str = include_str!("../data/crawler-user-agents/VERSION");
/// Memory that all patterns together may take while they are compiled and while they are used;
/// they take some 2 MB.
const COMPILED_BYTES_MAX: usize = 32 << 20;

/// Why the list that was built in will not do.
#[derive(Debug, thiserror::Error)]
pub enum BadList {
    /// It is no list of entries with a pattern each.
    #[error("the list of bots cannot be read: {0}")]
    Unreadable(String),
    /// A pattern is none, or all of them are too much.
    #[error("the list of bots does not compile: {0}")]
    Uncompiled(#[from] regex::Error),
}

/// The known bots.
#[derive(Clone, Debug)]
pub struct Bots {
    any: Regex,
    list: String,
}

impl Bots {
    /// Reads and compiles the list that is built in, in some 20 ms.
    ///
    /// # Errors
    /// Where it is not the list that it should be.
    pub fn known() -> Result<Self, BadList> {
        let list = format!("crawler-user-agents {}", VERSION.trim());
        Self::compiled(LIST, list)
    }

    fn compiled(json: &str, list: String) -> Result<Self, BadList> {
        let entries: Vec<serde_json::Value> =
            serde_json::from_str(json).map_err(|error| BadList::Unreadable(error.to_string()))?;
        let pattern = |entry: &serde_json::Value| {
            let pattern = entry["pattern"].as_str().filter(|pattern| !pattern.is_empty());
            pattern.map(|pattern| format!("(?:{pattern})"))
        };
        let patterns: Option<Vec<String>> = entries.iter().map(pattern).collect();
        let patterns = patterns.filter(|patterns| !patterns.is_empty()).ok_or_else(|| {
            BadList::Unreadable("it has no entries, or one without a pattern".to_owned())
        })?;
        let any = RegexBuilder::new(&patterns.join("|"))
            // An agent is bytes, and need not be UTF-8.
            .unicode(false)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build()?;
        Ok(Self { any, list })
    }

    /// The list that says so, with its version, where `agent` is a known bot's. Of a long one
    /// only the first bytes are looked at.
    pub fn named(&self, agent: &[u8]) -> Option<&str> {
        let used = &agent[..agent.len().min(USER_AGENT_BYTES_USED_MAX)];
        self.any.is_match(used).then_some(self.list.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, \
                          like Gecko) Chrome/131.0.0.0 Safari/537.36";
    const CUBOT: &str = "Mozilla/5.0 (Linux; Android 9; CUBOT_P30) AppleWebKit/537.36 (KHTML, \
                         like Gecko) Chrome/80.0.3987.99 Mobile Safari/537.36";
    const APPLEBOT: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 \
                            (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; \
                            +http://www.apple.com/go/applebot)";

    #[test]
    fn people_are_people_and_bots_are_bots() {
        let bots = Bots::known().unwrap();
        for person in ["", CHROME, CUBOT, "Mozilla/5.0 (Linux; Android 12; CUBOT KINGKONG 7)"] {
            assert_eq!(bots.named(person.as_bytes()), None, "{person}");
        }
        let list = format!("crawler-user-agents {}", VERSION.trim());
        for bot in [APPLEBOT, "Googlebot/2.1 (+http://www.google.com/bot.html)", "curl/8.9.0"] {
            assert_eq!(bots.named(bot.as_bytes()), Some(list.as_str()), "{bot}");
        }
    }

    /// The list brings agents that its patterns were made for.
    #[test]
    fn every_agent_that_the_list_names_is_found() {
        let bots = Bots::known().unwrap();
        let entries: Vec<serde_json::Value> = serde_json::from_str(LIST).unwrap();
        let agents = entries.iter().filter_map(|entry| entry["instances"].as_array()).flatten();
        let mut seen = 0;
        for agent in agents.filter_map(|agent| agent.as_str()) {
            assert!(bots.named(agent.as_bytes()).is_some(), "{agent}");
            seen += 1;
        }
        assert!(seen > 1_000, "{seen} agents");
    }

    #[test]
    fn an_agent_may_be_anything() {
        let bots = Bots::known().unwrap();
        let long = vec![b'x'; 64 << 10];
        assert_eq!(bots.named(&long), None);
        assert_eq!(bots.named(b"\xff\xfe\x80 Mozilla"), None);
        assert!(bots.named(b"\xff\xfe Applebot/0.1").is_some());
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        for bad in
            ["", "{}", "[]", r#"[{"url":"x"}]"#, r#"[{"pattern":""}]"#, r#"[{"pattern":"("}]"#]
        {
            assert!(Bots::compiled(bad, String::new()).is_err(), "{bad}");
        }
    }
}
