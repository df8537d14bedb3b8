//! Profiles on a cluster: each visitor's hash is with one of its nodes.

use slotwise_server::ports::ProfileStore;

use crate::node::{Node, key};
use crate::redis_server::{RedisCluster, RedisServer};

const VISITORS: u128 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dead_node_holds_up_nobody_but_its_own_visitors() {
    let mut cluster = RedisCluster::start();
    let node = Node::connected(&cluster.url()).await;
    for of in 0..VISITORS {
        assert!(node.show(of, 2, 1).await);
    }
    node.flush().await;
    cluster.nodes[2].kill();
    node.is_degraded().await;
    let mut lost = 0;
    for of in 0..VISITORS {
        lost += usize::from(!node.known(of).await.is_certain);
        assert!(node.show(of, 2, 2).await, "of what is known, or remembered");
        assert!(!node.show(of, 2, 3).await);
    }
    assert!((1..VISITORS as usize / 2).contains(&lost), "{lost} of {VISITORS} visitors");
    assert!(node.store.flush().await.is_err(), "the dead node was not told");
}

/// The server that has the slot, and another one.
fn owner_and_other(cluster: &RedisCluster, slot: u64) -> (&RedisServer, &RedisServer) {
    let has_it = |node: &&RedisServer| {
        node.run::<String>(&["CLUSTER", "NODES"])
            .lines()
            .find(|line| line.contains("myself"))
            .is_some_and(|line| {
                line.split(' ').skip(8).any(|range| {
                    let (first, last) = range.split_once('-').unwrap_or((range, range));
                    let number = |text: &str| text.parse::<u64>().unwrap();
                    (number(first)..=number(last)).contains(&slot)
                })
            })
    };
    let owner = cluster.nodes.iter().find(has_it).unwrap();
    (owner, cluster.nodes.iter().find(|node| !has_it(node)).unwrap())
}

/// An operator moves a visitor's slot to another server while the visitor is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slot_that_moves_loses_and_doubles_nothing() {
    let cluster = RedisCluster::start();
    let node = Node::connected(&cluster.url()).await;
    assert!(node.show(7, 9, 1).await);
    node.flush().await;
    let slot: u64 = cluster.nodes[0].run(&["CLUSTER", "KEYSLOT", &key(7)]);
    let (from, to) = owner_and_other(&cluster, slot);
    let id = |of: &RedisServer| of.run::<String>(&["CLUSTER", "MYID"]);
    let slot = &slot.to_string();
    to.run::<()>(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &id(from)]);
    from.run::<()>(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &id(to)]);
    let port = &to.port.to_string();
    from.run::<()>(&["MIGRATE", "127.0.0.1", port, "", "0", "5000", "KEYS", &key(7)]);
    // Now the one says that the other has it, and the other that it is not its own yet: what a cap
    // may ask for is withheld meanwhile.
    assert!(node.try_show(7, 9, 2, std::time::Duration::from_millis(20)).await.is_err());
    for server in [to, from] {
        server.run::<()>(&["CLUSTER", "SETSLOT", slot, "NODE", &id(to)]);
    }
    assert!(node.show(7, 9, 3).await);
    node.flush().await;
    node.is_back().await;
    assert!(node.show_strictly(7, 9, 4).await);
    let fresh = Node::connected(&cluster.url()).await;
    assert_eq!(fresh.decisions(7).await, [1, 3, 4]);
    assert_eq!(to.run::<usize>(&["HLEN", &key(7)]), 1);
}
