//! Asking the catalogue: one object, or pages of them in order of their ids.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use slotwise_core::index::Key;

use super::Catalog;
use super::change::{not_found, stored};
use super::object::Object;
use super::problem::{CatalogError, Problem};
use crate::limits::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX};
use crate::ports::{ListQuery, Row};

/// Which page of which objects.
#[derive(Clone, Debug)]
pub struct ListRequest<'r> {
    /// A key of the wanted kind with an empty id; a zone's site or an ad's campaign is the one
    /// that is listed.
    pub kind: Key,
    /// Only this account's; empty: all.
    pub owner: &'r str,
    /// Only ids that begin so; empty: all.
    pub id_prefix: &'r str,
    /// 0: 100.
    pub page_size: u32,
    /// From the page before; empty: the first.
    pub page_token: &'r str,
}

/// One page.
#[derive(Clone, Debug)]
pub struct Page<O> {
    /// In order of their ids.
    pub objects: Vec<O>,
    /// Empty: this was the last.
    pub next_page_token: String,
}

impl Catalog {
    /// The object of `key`.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] where there is none.
    pub async fn get<O: Object>(&self, key: &Key) -> Result<O, CatalogError> {
        let (_, rows) = self.store.get(std::slice::from_ref(key)).await?;
        let row = rows.first().ok_or_else(|| not_found(key))?;
        O::from_record(stored(row)?).ok_or_else(|| not_found(key))
    }

    /// Sees that there is an object of `key`, be it damaged or not.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] where there is none.
    pub async fn expect(&self, key: &Key) -> Result<(), CatalogError> {
        let (_, rows) = self.store.get(std::slice::from_ref(key)).await?;
        if rows.is_empty() { Err(not_found(key)) } else { Ok(()) }
    }

    /// The objects of `keys` that are there, in the order of `keys`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn get_all<O: Object>(&self, keys: &[Key]) -> Result<Vec<O>, CatalogError> {
        let (_, rows) = self.store.get(keys).await?;
        Ok(rows.iter().filter_map(readable).collect())
    }

    /// One page of objects.
    ///
    /// # Errors
    /// See [`CatalogError`]; NotFound when the site or campaign that is listed is not there.
    pub async fn list<O: Object>(&self, request: ListRequest<'_>) -> Result<Page<O>, CatalogError> {
        let limit = page_size(request.page_size)?;
        let last = decode_token(request.page_token)?;
        let parent = match &request.kind {
            Key::Zone(site, _) => Some(Key::Site(site.clone())),
            Key::Ad(campaign, _) => Some(Key::Campaign(campaign.clone())),
            _ => None,
        };
        if let Some(parent) = parent {
            self.expect(&parent).await?;
        }
        let query = ListQuery {
            after: with_id(&request.kind, &last),
            owner: request.owner.to_owned(),
            id_prefix: request.id_prefix.to_owned(),
            limit: limit + 1,
        };
        let mut rows = self.store.list(&query).await?;
        let is_cut = rows.len() > limit;
        rows.truncate(limit);
        let next_page_token = match rows.last() {
            Some(last) if is_cut => encode_token(last.key.parts().1),
            _ => String::new(),
        };
        Ok(Page { objects: rows.iter().filter_map(readable).collect(), next_page_token })
    }
}

/// The object in `row`. A damaged one is left out of lists, and the refresher has named it: it
/// must not keep the others from being seen. Asked for by its own id it is an error.
fn readable<O: Object>(row: &Row) -> Option<O> {
    stored(row).ok().and_then(O::from_record)
}

/// How many objects a page holds.
///
/// # Errors
/// When it is more than a page may.
pub fn page_size(asked: u32) -> Result<usize, CatalogError> {
    if asked > PAGE_SIZE_MAX {
        let message = format!("is {asked}; the limit is {PAGE_SIZE_MAX}");
        return Err(CatalogError::refused(Problem::invalid("page_size", message)));
    }
    Ok(if asked == 0 { PAGE_SIZE_DEFAULT } else { asked } as usize)
}

/// A place in a list as a token.
pub fn encode_token(place: &str) -> String {
    URL_SAFE_NO_PAD.encode(place)
}

/// The place that a token names; empty: the beginning.
///
/// # Errors
/// When the token is none of ours.
pub fn decode_token(token: &str) -> Result<String, CatalogError> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        let message = "is none that this call gave; send next_page_token as it came, or nothing";
        CatalogError::refused(Problem::invalid("page_token", message))
    })
}

fn with_id(kind: &Key, id: &str) -> Key {
    match kind {
        Key::Account(_) => Key::Account(id.into()),
        Key::Site(_) => Key::Site(id.into()),
        Key::Zone(site, _) => Key::Zone(site.clone(), id.into()),
        Key::Campaign(_) => Key::Campaign(id.into()),
        Key::Ad(campaign, _) => Key::Ad(campaign.clone(), id.into()),
    }
}
