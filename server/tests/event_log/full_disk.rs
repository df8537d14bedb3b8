//! A disk that takes no more: the system's limit on the size of a file is as good as a full one,
//! and cuts writes short in the same way.

use std::sync::Arc;

use slotwise_server::telemetry::Counters;

use crate::child::{Life, live};
use crate::{check, embedded, recorder, settled};

#[tokio::test]
async fn a_disk_that_is_full_loses_only_what_it_said_it_lost() {
    let dir = tempfile::tempdir().unwrap();
    let life = Life { first: 0, events: 40_000, at_once: 50, death: None, log: "off" };
    // Files of at most 512 KiB (1,024 blocks), and an error for who writes on, not a signal.
    let ended = live(dir.path(), &life, "trap '' XFSZ; ulimit -f 1024;");
    assert!(ended.status.success());
    assert_eq!(ended.acknowledged.len() + ended.lost.len(), 40_000, "each has one answer");
    let [recorded, spilled, lost] = ended.counts.unwrap();
    assert!(recorded > 0 && spilled > 0 && lost > 0, "{recorded} {spilled} {lost}");
    assert_eq!(recorded + spilled, ended.acknowledged.len() as u64);
    assert_eq!(lost, ended.lost.len() as u64);

    // There is space again.
    let log = embedded(dir.path());
    let recorder = recorder(dir.path(), Arc::clone(&log), &Arc::<Counters>::default());
    settled(&recorder).await;
    check(&*log, &ended.acknowledged).await;
}
