//! Lists: every page of them, up to a limit.

use crate::ctl::error::Error;
use crate::ctl::output::note;

/// The most that the server gives at once.
pub(crate) const PAGE_SIZE_MAX: u32 = 1_000;

/// Gathers pages until the list or `limit` ends; says so on standard error when it was cut.
/// `fetch` gets a page size and a page token, and returns the items and the next token.
pub(crate) async fn collect<T>(
    limit: u32,
    mut fetch: impl AsyncFnMut(u32, String) -> Result<(Vec<T>, String), Error>,
) -> Result<Vec<T>, Error> {
    let limit_items = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut items, mut token) = (Vec::new(), String::new());
    loop {
        let (page, next) = fetch(limit.min(PAGE_SIZE_MAX), token.clone()).await?;
        // A page without items that leads to itself would never end.
        let ended = next.is_empty() || (page.is_empty() && next == token);
        items.extend(page);
        if items.len() > limit_items || (items.len() == limit_items && !ended) {
            items.truncate(limit_items);
            note(&format!("only the first {limit} are shown: --limit takes another number"));
            return Ok(items);
        }
        if ended {
            return Ok(items);
        }
        token = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with `total` items, which gives at most 3 at once.
    async fn list(total: u32, limit: u32) -> Vec<u32> {
        collect(limit, async |size: u32, token: String| {
            let start: u32 = if token.is_empty() { 0 } else { token.parse().unwrap() };
            let end = total.min(start + size.min(3));
            let next = if end < total { end.to_string() } else { String::new() };
            Ok(((start..end).collect(), next))
        })
        .await
        .unwrap()
    }

    #[tokio::test]
    async fn pages_are_joined_up_to_the_limit() {
        for (total, limit, expected) in [(0, 10, 0), (3, 10, 3), (10, 10, 10), (10, 4, 4)] {
            assert_eq!(list(total, limit).await, (0..expected).collect::<Vec<u32>>());
        }
    }
}
