//! What each call of the admin door needs: one table.

use std::fmt;
use std::str::FromStr;

/// What somebody may do. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look at everything.
    Viewer,
    /// Pause and activate campaigns, too.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// How it is written, and which others there are.
    const NAMES: [(&'static str, Self); 3] =
        [("viewer", Self::Viewer), ("operator", Self::Operator), ("admin", Self::Admin)];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().find(|(_, role)| role == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text);
        named.map(|(_, role)| *role).ok_or("is none of viewer, operator, admin")
    }
}

/// Where the paths begin of what everybody may call: probes ask for health, and reflection shows
/// no more than the published contract.
const OPEN: [&str; 3] = [
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
];

/// The role that each call needs.
const NEEDED: &[(&str, Role)] = &[
    ("/slotwise.v1.CatalogService/GetAccount", Role::Viewer),
    ("/slotwise.v1.CatalogService/GetAd", Role::Viewer),
    ("/slotwise.v1.CatalogService/GetCampaign", Role::Viewer),
    ("/slotwise.v1.CatalogService/GetDelivery", Role::Viewer),
    ("/slotwise.v1.CatalogService/ListAccounts", Role::Viewer),
    ("/slotwise.v1.CatalogService/ListAds", Role::Viewer),
    ("/slotwise.v1.CatalogService/ListCampaigns", Role::Viewer),
    ("/slotwise.v1.CatalogService/ListChanges", Role::Viewer),
    ("/slotwise.v1.CatalogService/ListNodes", Role::Viewer),
    ("/slotwise.v1.CatalogService/ListSites", Role::Viewer),
    ("/slotwise.v1.CatalogService/ListZoneAds", Role::Viewer),
    ("/slotwise.v1.CatalogService/ListZones", Role::Viewer),
    ("/slotwise.v1.CatalogService/WatchChanges", Role::Viewer),
    ("/slotwise.v1.CatalogService/Export", Role::Viewer),
    ("/slotwise.v1.CatalogService/SetCampaignStatus", Role::Operator),
    ("/slotwise.v1.CatalogService/PutAccount", Role::Admin),
    ("/slotwise.v1.CatalogService/PutAd", Role::Admin),
    ("/slotwise.v1.CatalogService/PutCampaign", Role::Admin),
    ("/slotwise.v1.CatalogService/PutSite", Role::Admin),
    ("/slotwise.v1.CatalogService/PutZone", Role::Admin),
    ("/slotwise.v1.CatalogService/DeleteAd", Role::Admin),
    ("/slotwise.v1.CatalogService/DeleteCampaign", Role::Admin),
    ("/slotwise.v1.CatalogService/Import", Role::Admin),
    ("/slotwise.v1.ReplayService/ReplayEvents", Role::Admin),
    ("/slotwise.v1.ReportService/GetBill", Role::Viewer),
    ("/slotwise.v1.ReportService/GetStats", Role::Viewer),
    ("/slotwise.v1.ReportService/ListMinutes", Role::Viewer),
    ("/slotwise.v1.ReportService/ListTopAds", Role::Viewer),
    ("/slotwise.v1.ReportService/WatchMinutes", Role::Viewer),
    ("/slotwise.v1.UserService/GetProfile", Role::Viewer),
    ("/slotwise.v1.UserService/UpdateSegments", Role::Admin),
    ("/slotwise.v1.UserService/ForgetUser", Role::Admin),
];

/// The role that a call of `path` needs; nothing: everybody may. What the table does not know
/// needs the highest.
pub(super) fn needed(path: &str) -> Option<Role> {
    if OPEN.iter().any(|open| path.starts_with(open)) {
        return None;
    }
    let known = NEEDED.iter().find(|(known, _)| *known == path);
    Some(known.map_or(Role::Admin, |(_, role)| *role))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Served on doors of their own.
    const OTHER_DOORS: [&str; 2] = ["slotwise.v1.AdDecisionService", "slotwise.v1.EventService"];

    /// What only looks is a viewer's, the kill switch an operator's, the rest an admin's.
    fn by_name(method: &str) -> Role {
        let looks = ["Get", "List", "Watch", "Export"];
        match method {
            "SetCampaignStatus" => Role::Operator,
            _ if looks.iter().any(|verb| method.starts_with(verb)) => Role::Viewer,
            _ => Role::Admin,
        }
    }

    #[test]
    fn every_call_of_the_contract_is_in_the_table_and_nothing_else() {
        let services = slotwise_proto::dynamic::pool().services();
        let ours = services.filter(|service| !OTHER_DOORS.contains(&service.full_name()));
        let contract: BTreeMap<String, Role> = ours
            .flat_map(|service| service.methods().collect::<Vec<_>>())
            .map(|method| {
                let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
                (path, by_name(method.name()))
            })
            .collect();
        let table: BTreeMap<String, Role> =
            NEEDED.iter().map(|(path, role)| ((*path).to_owned(), *role)).collect();
        assert_eq!(table, contract);
        assert_eq!(table.len(), NEEDED.len(), "each once");
        assert!(table.len() > 25, "{} calls are too few to be all", table.len());
    }

    #[test]
    fn what_nobody_knows_needs_the_highest_role_and_health_none() {
        assert_eq!(needed("/slotwise.v1.CatalogService/DropEverything"), Some(Role::Admin));
        assert_eq!(needed("/slotwise.v2.CatalogService/GetAd"), Some(Role::Admin));
        assert_eq!(needed("/slotwise.v1.CatalogService/GetAd/"), Some(Role::Admin));
        assert_eq!(needed("/grpc.health.v1.HealthX/Check"), Some(Role::Admin));
        assert_eq!(needed(""), Some(Role::Admin));
        assert_eq!(needed("/grpc.health.v1.Health/Check"), None);
        assert_eq!(needed("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), None);
    }

    #[test]
    fn roles_are_ordered_and_read_as_they_are_written() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
        for role in [Role::Viewer, Role::Operator, Role::Admin] {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().is_err() && "Admin".parse::<Role>().is_err());
    }
}
