//! Every setting there is, once: the flags, the environment's names, the file's keys and the
//! help all come from here.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key in the file; `--decision-addr` and `SLOTWISE_DECISION_ADDR` follow from it.
    pub key: &'static str,
    /// What holds where nothing is said.
    pub default: &'static str,
    /// What it is, for `--help`.
    pub help: &'static str,
}

impl Setting {
    /// Its flag, without the dashes.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Its environment variable.
    pub fn variable(&self) -> String {
        format!("SLOTWISE_{}", self.key.to_uppercase())
    }
}

/// All settings.
pub const SETTINGS: [Setting; 36] = [
    Setting {
        key: "decision_addr",
        default: "127.0.0.1:7070",
        help: "Where decisions are asked for (gRPC)",
    },
    Setting { key: "event_addr", default: "127.0.0.1:7071", help: "Where events are reported" },
    Setting {
        key: "admin_addr",
        default: "127.0.0.1:7072",
        help: "Where the catalogue is managed (gRPC); off loopback it needs admin_identities and TLS",
    },
    Setting {
        key: "decision_tls_cert",
        default: "",
        help: "PEM file of the decision door's certificate, and those that lead to its authority; \
               empty: no TLS",
    },
    Setting {
        key: "decision_tls_key",
        default: "",
        help: "PEM file of the key of decision_tls_cert",
    },
    Setting {
        key: "decision_tls_client_ca",
        default: "",
        help: "PEM file of the authorities that callers must have a certificate of; empty: any \
               caller will do",
    },
    Setting {
        key: "event_tls_cert",
        default: "",
        help: "PEM file of the event door's certificate, and those that lead to its authority; \
               empty: no TLS",
    },
    Setting { key: "event_tls_key", default: "", help: "PEM file of the key of event_tls_cert" },
    Setting {
        key: "event_tls_client_ca",
        default: "",
        help: "PEM file of the authorities that callers must have a certificate of; empty: any \
               caller will do",
    },
    Setting {
        key: "admin_tls_cert",
        default: "",
        help: "PEM file of the admin door's certificate, and those that lead to its authority; \
               empty: no TLS",
    },
    Setting { key: "admin_tls_key", default: "", help: "PEM file of the key of admin_tls_cert" },
    Setting {
        key: "admin_tls_client_ca",
        default: "",
        help: "PEM file of the authorities whose certificates say who calls; see admin_identities",
    },
    Setting {
        key: "admin_identities",
        default: "",
        help: "TOML file of who may manage the catalogue, by token or certificate; empty: whoever \
               is on this machine",
    },
    Setting {
        key: "token_keys",
        default: "",
        help: "TOML file of the keys that tokens are sealed with, newest first; read again when it \
               changes; empty: a key that is made once and kept in the store",
    },
    Setting {
        key: "event_base_url",
        default: "",
        help: "What the addresses of impressions and clicks begin with, such as \
               https://ads.example; empty: the event door's own address",
    },
    Setting {
        key: "default_exposure",
        default: "on-decision",
        help: "What fills a frequency cap where a request does not say: on-decision or \
               on-impression",
    },
    Setting {
        key: "store",
        default: "embedded",
        help: "Where the catalogue and the profiles are kept: embedded, for one node; or \
               redis://host[:port], rediss:// with TLS, redis://a,b,c for a cluster, \
               unix:///path",
    },
    Setting {
        key: "redis_password_file",
        default: "",
        help: "File of Redis's password, read at each connect; empty: the one in the URL",
    },
    Setting {
        key: "redis_ca",
        default: "",
        help: "PEM file of the authorities of rediss:// servers; empty: the system's",
    },
    Setting {
        key: "redis_prefix",
        default: "slotwise",
        help: "What keys begin with, so that several installations may share a Redis",
    },
    Setting {
        key: "events_trust_occurred_at",
        default: "false",
        help: "Whether the event door believes occurred_at, for callers whose clocks are yours: true \
               or false (this node's clock stamps every event)",
    },
    Setting {
        key: "impression_life_s",
        default: "3600",
        help: "Seconds after its decision in which an impression or a loss is taken",
    },
    Setting {
        key: "click_life_s",
        default: "86400",
        help: "Seconds after its decision in which a click is taken",
    },
    Setting {
        key: "conversion_life_s",
        default: "2592000",
        help: "Seconds after its decision in which a conversion is taken",
    },
    Setting {
        key: "counts",
        default: "",
        help: "Where events are counted: empty, in data_dir; or postgres://user:password@host/\
               database, or several of them between commas, whose number and order must stay. \
               They are reached in clear: over a network that you trust",
    },
    Setting {
        key: "count",
        default: "auto",
        help: "Whether this process counts: on, off, or auto (on, but for store = redis without \
               counts of its nodes together)",
    },
    Setting {
        key: "log_kept_s",
        default: "86400",
        help: "Seconds that counted events stay in the log",
    },
    Setting {
        key: "node_id",
        default: "",
        help: "What this node is called; empty: a name that is made up once and kept in data_dir",
    },
    Setting {
        key: "data_dir",
        default: "./slotwise-data",
        help: "Where the embedded store keeps its files; with Redis, this node's snapshot",
    },
    Setting {
        key: "spill_bytes_max",
        default: "1073741824",
        help: "Bytes of the file in data_dir that events wait in while their log is away",
    },
    Setting {
        key: "decision_threads",
        default: "0",
        help: "Threads that answer decisions, and as many that answer the event door; 0: one for each \
               core",
    },
    Setting {
        key: "shutdown_deadline_s",
        default: "10",
        help: "Seconds that a stop may take, whatever the callers do",
    },
    Setting {
        key: "catalog_stale_after_s",
        default: "0",
        help: "Answer CATALOG_STALE when the store last confirmed the catalogue so many seconds \
               ago; 0: never",
    },
    Setting {
        key: "profile_fresh_ms",
        default: "100",
        help: "With store = redis: milliseconds for which a decision takes what the store said of \
               its visitor last, without asking again; 0: each asks",
    },
    Setting {
        key: "log_format",
        default: "auto",
        help: "How log lines look: human, json, or auto (human on a terminal)",
    },
    Setting {
        key: "log",
        default: "info",
        help: "Which log lines there are, such as warn or info,slotwise_server=debug",
    },
];
