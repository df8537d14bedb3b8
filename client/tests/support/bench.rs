//! A real server in this process with `slotwisectl` beside it, and a catalogue to begin with.

use std::path::{Path, PathBuf};

use serde_json::Value;
use slotwise_server::testing::Server;

use crate::run::Doors;

/// A catalogue of one site, on which two campaigns compete. Line 4 is blank on purpose.
pub(crate) const CATALOG: &str = r#"{"account":{"accountId":"acme","timeZone":"America/New_York","currency":"USD"}}
{"site":{"siteId":"news","accountId":"acme"}}
{"zone":{"siteId":"news","zoneId":"top"}}

{"campaign":{"campaignId":"7:summer","accountId":"acme","price":{"thousandImpressionsMicros":"200000000"}}}
{"campaign":{"campaignId":"8:car","accountId":"acme","price":{"thousandImpressionsMicros":"250000000"}}}
{"ad":{"campaignId":"7:summer","adUnitId":"banner","zones":[{"siteId":"news","zoneId":"top"}],"keywords":["car","performance"],"landingUrl":"https://summer.example/"}}
{"ad":{"campaignId":"8:car","adUnitId":"a1","zones":[{"siteId":"news","zoneId":"top"}],"keywords":["car","luxury","style"],"landingUrl":"https://car.example/1"}}
{"ad":{"campaignId":"8:car","adUnitId":"a2","zones":[{"siteId":"news","zoneId":"top"}],"keywords":["car","luxury","style"],"landingUrl":"https://car.example/2"}}
"#;

/// A server, and a directory for files.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) doors: Doors,
    pub(crate) files: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn empty() -> Self {
        let server = Server::start().await;
        let doors = Doors { admin: server.admin_addr(), decision: server.decision_addr() };
        Bench { server, doors, files: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn with_catalog() -> Self {
        let bench = Bench::empty().await;
        let file = bench.file("catalog.ndjson", CATALOG);
        let stdout = bench.ok(&["import", text(&file)]).await;
        assert!(stdout.starts_with("imported 8 records: catalogue version "), "{stdout}");
        bench
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.files.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) async fn ok(&self, args: &[&str]) -> String {
        self.doors.run(args).await.ok()
    }

    pub(crate) async fn fails(&self, code: i32, args: &[&str]) -> String {
        self.doors.run(args).await.failed(code)
    }

    /// The campaign as JSON has it.
    pub(crate) async fn campaign(&self, id: &str) -> Value {
        serde_json::from_str(&self.ok(&["campaign", "show", id, "--json"]).await).unwrap()
    }

    /// Every record, without the versions that the server gives.
    pub(crate) async fn exported(&self) -> Vec<Value> {
        let lines = self.ok(&["export"]).await;
        lines.lines().map(|line| unversioned(serde_json::from_str(line).unwrap())).collect()
    }

    /// Imports `text` as `bad.ndjson`, which must be refused and change nothing; the path and
    /// what was said.
    pub(crate) async fn refused_import(&self, content: &str) -> (String, String) {
        let before = self.exported().await;
        let file = self.file("bad.ndjson", content);
        let stderr = self.fails(1, &["import", text(&file)]).await;
        assert_eq!(self.exported().await, before, "nothing has changed");
        (text(&file).to_owned(), stderr)
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn unversioned(mut record: Value) -> Value {
    for object in record.as_object_mut().unwrap().values_mut() {
        object.as_object_mut().unwrap().remove("version");
    }
    record
}
