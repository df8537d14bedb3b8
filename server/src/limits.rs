//! Every bound of the service, each with its reason. Over one of the first group a request is
//! refused with INVALID_ARGUMENT, the field and the limit; the others bound what we do ourselves.

use std::time::Duration;

// ---- What a caller may ask -------------------------------------------------------------------

/// Ads in one answer. More do not fit a page.
pub const COUNT_MAX: u32 = 100;
/// Distinct keywords of a request that are used; see [`slotwise_core::model::KEYWORDS_USED_MAX`].
pub const KEYWORDS_USED_MAX: usize = slotwise_core::model::KEYWORDS_USED_MAX;
/// A longer keyword is a sentence, which no ad matches: ignored, and counted.
pub const KEYWORD_BYTES_MAX: usize = 64;
/// Requests in one batch: what a caller gathers in a few ms.
pub const BATCH_REQUESTS_MAX: usize = 1_000;
/// Ads that one batch may ask for in all: at the usual 100 bytes an ad 1 MiB of answer, below the
/// 4 MiB that stock gRPC clients take by default.
pub const BATCH_ADS_MAX: usize = 10_000;
/// Placements of one page: more than any page shows at once, and with the ads of each the answer
/// stays within that of a batch.
pub const PLACEMENTS_MAX: usize = 64;
const _: () = assert!(PLACEMENTS_MAX * COUNT_MAX as usize <= BATCH_ADS_MAX);
/// Candidates that are explained one by one where the caller does not say; the contract's number.
pub const EXPLAIN_DEFAULT: u32 = 20;
/// Candidates of one zone that are explained one by one: more than a person reads. What became of
/// all of them is in the counts.
pub const EXPLAIN_MAX: u32 = 1_000;
/// Candidates that one page or batch has explained in all: the default for each request of a full
/// batch; at the usual 150 bytes 3 MiB of answer, below the 4 MiB of stock clients.
pub const EXPLAINED_IN_ALL_MAX: usize = 20_000;
const _: () = assert!(BATCH_REQUESTS_MAX * EXPLAIN_DEFAULT as usize <= EXPLAINED_IN_ALL_MAX);
/// Bytes of an id: fits every id scheme we know and keeps keys and log lines short.
pub const ID_BYTES_MAX: usize = 128;
/// Bytes of one message on a decision door: a batch of 1,000 requests of 1,000 bytes.
pub const DECISION_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Blocked advertisers, categories or domains in one request or site. OpenRTB block lists of
/// large exchanges hold some hundred entries.
pub const BLOCKED_MAX: usize = 1_000;
/// Sizes in one request or zone: there are some thirty in common use.
pub const SIZES_MAX: usize = 64;
/// Bytes of a segment's name, its family included: as for an id.
pub const SEGMENT_NAME_BYTES_MAX: usize = ID_BYTES_MAX;
/// Segments that one call adds, and that it removes: as many as a visitor can have.
pub const SEGMENTS_CHANGED_MAX: usize = slotwise_core::model::SEGMENTS_IN_PROFILE_MAX;
/// How long a segment lives where the caller does not say.
pub const SEGMENT_LIFE_DEFAULT: Duration = Duration::from_secs(30 * 86_400);
/// The longest life of a segment: nothing of a visitor is kept longer than the showings are.
pub const SEGMENT_LIFE_MAX: Duration = HISTORY;
const _: () = assert!(SEGMENT_LIFE_DEFAULT.as_micros() <= SEGMENT_LIFE_MAX.as_micros());
/// Key-values of a page: some thirty are usual, and each is copied for each decision.
pub const CONTEXT_VALUES_MAX: usize = 64;
/// Bytes of one such value: a title or a path fits, an article does not.
pub const CONTEXT_VALUE_BYTES_MAX: usize = 1_024;
/// Segments that a caller knows of its visitor: as many as we keep ourselves.
pub const CONTEXT_SEGMENTS_MAX: usize = slotwise_core::model::SEGMENTS_IN_PROFILE_MAX;
/// Longest deadline that a caller may ask for: past a minute nobody waits for an ad.
pub const TIMEOUT_MS_MAX: u32 = 60_000;

/// Events in one call: what a caller gathers in a few seconds.
pub const EVENTS_IN_CALL_MAX: usize = 1_000;
/// Bytes of one call of the event door: a thousand events of 1,000 bytes, in JSON, too.
pub const EVENT_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The longest life of a token that may be configured. Names of what was deleted and ids of
/// conversions are kept somewhat longer.
pub const TOKEN_LIFE_MAX: Duration = Duration::from_secs(30 * 86_400);
const _: () = assert!(TOKEN_LIFE_MAX.as_secs() < SERIAL_AFTERLIFE.as_secs());

// ---- What the catalogue takes ----------------------------------------------------------------

/// Ads in one zone: what the index is built to answer from.
pub const ADS_IN_ZONE_MAX: usize = 1_000_000;
/// Zones of one ad. More are better said by a campaign that holds several ads.
pub const ZONES_OF_AD_MAX: usize = 10_000;
/// Bytes of an ad's markup.
pub const MARKUP_BYTES_MAX: usize = 32 << 10;
/// Bytes of a landing URL: what every browser and proxy passes on.
pub const LANDING_URL_BYTES_MAX: usize = 2_048;
/// Caps on one campaign: three levels, and a few windows each.
pub const CAPS_MAX: usize = 8;
/// Exposures that a cap may count; see the profile's own bound, which it must not exceed.
pub const CAP_IMPRESSIONS_MAX: usize = slotwise_core::model::EXPOSURES_PER_ADVERTISER_MAX;
/// Values of one targeting clause, and segments of one campaign.
pub const TARGETING_VALUES_MAX: usize = 256;
/// Bytes of a targeting expression: a list of some hundred sections still fits. It bounds what one
/// candidate costs, beside the nesting that the parser itself bounds (see
/// [`slotwise_core::model::EXPRESSION_NESTING_MAX`]).
pub const EXPRESSION_BYTES_MAX: usize = 2 << 10;
/// Keywords, or excluded keywords, of one ad.
pub const AD_KEYWORDS_MAX: usize = 1_000;
/// Categories, domains or labels of one campaign.
pub const CAMPAIGN_VALUES_MAX: usize = 256;
/// Bytes of a name that only people read.
pub const DISPLAY_NAME_BYTES_MAX: usize = 256;
/// Micros of a price or eCPM: a million units of currency. Below 2^53, so that a score's f64
/// holds it exactly.
pub const PRICE_MICROS_MAX: i64 = 1_000_000_000_000;
const _: () = assert!(PRICE_MICROS_MAX < 1 << 53);
/// Micros of a budget: nine billion units of currency, the most whose nanos fit an i64.
pub const BUDGET_MICROS_MAX: i64 = 9_000_000_000_000_000;
const _: () = assert!(BUDGET_MICROS_MAX <= i64::MAX / 1_000);
/// Paths of an update mask. No object has so many fields; each path copies the field it names.
pub const MASK_PATHS_MAX: usize = 64;
/// Pixels of a width or height.
pub const SIZE_PIXELS_MAX: u32 = 32_768;

/// Objects in one page of a list.
pub const PAGE_SIZE_MAX: u32 = 1_000;
/// Objects in one page where the caller does not say.
pub const PAGE_SIZE_DEFAULT: u32 = 100;
/// Records of one import. It is checked as a whole before anything is written, so it is held in
/// memory, and one import at a time.
pub const IMPORT_RECORDS_MAX: usize = 5_000_000;
/// Bytes of the records of one import.
pub const IMPORT_BYTES_MAX: usize = 2 << 30;
/// Problems of a refused import that are told one by one; all are counted.
pub const IMPORT_PROBLEMS_MAX: usize = 100;
/// Bytes of one message on the admin door: an ad in 10,000 zones with ids of full length.
pub const ADMIN_MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Exports at once: each holds a reader of the store while its caller takes it.
pub const EXPORTS_MAX: usize = 4;
/// An export whose caller takes nothing for so long is ended.
pub const EXPORT_STALL_MAX: Duration = Duration::from_secs(30);
/// Fields that a refused call names one by one: its error must fit the headers that clients take.
pub const REFUSED_FIELDS_MAX: usize = 20;
/// Removals that a node which was away can still learn one by one; further ones mean a reload.
pub const REMOVALS_MAX: u64 = 1_000_000;
/// Times that a change is tried again when another one came between its check and its write.
pub const COMMIT_ATTEMPTS_MAX: usize = 8;
/// Longest wait for the nodes that SetCampaignStatus takes.
pub const STATUS_WAIT_MAX: Duration = Duration::from_secs(60);
/// Wait for the nodes where SetCampaignStatus does not say: the deadline that operators are
/// promised.
pub const STATUS_WAIT_DEFAULT: Duration = Duration::from_secs(1);

// ---- What we keep ----------------------------------------------------------------------------

/// Rows of the audit log: some years of an ad team's work, some 1 GB at 1 KiB a row.
pub const AUDIT_ROWS_MAX: u64 = 1_000_000;
/// What was deleted is known by its serial for so long: the longest life of a token (a conversion's,
/// 30 days), and five days in which late events come and reports of them are asked for.
pub const SERIAL_AFTERLIFE: Duration = Duration::from_secs(35 * 86_400);
/// Serials past that which one change sweeps away, beside two for each that it adds: so few that
/// no change is held up by them, and more than come.
pub const SERIALS_SWEPT: usize = 500;
/// The longest window that a cap may have: no exposure is kept longer, and none longer than some
/// cap can ask for it.
pub const HISTORY: Duration = Duration::from_secs(30 * 86_400);
/// Visitors with a profile on the embedded store. Above it, new visitors are shown no capped ad
/// rather than one too many. At the usual three exposures some 3 GB.
pub const VISITORS_MAX: usize = 10_000_000;
/// A profile's exposures reach the disk within this.
pub const PROFILE_FLUSH_INTERVAL: Duration = Duration::from_millis(200);
/// Exposures that wait for the disk. Five seconds of the mission's load; beyond it, capped ads
/// are withheld until the disk has caught up. Should visitors of one kind have filled it, the
/// others have their share all the same, up to twice as many.
pub const PROFILE_PENDING_MAX: usize = 350_000;
/// Bytes of exposures on disk, beyond twice the profiles themselves, that start a compaction.
pub const PROFILE_JOURNAL_BYTES_MIN: u64 = 64 << 20;
/// Bytes of profiles that one step of a compaction writes. There is one at each flush: 20 MB a
/// second, twice what the mission's load adds to the journal.
pub const PROFILE_FOLD_STEP_BYTES: usize = 4 << 20;
/// Visitors of whom it is remembered until when they were forgotten, for as long as something
/// that was shown before could count: with 48 bytes each some 5 MB. Above it the oldest goes.
pub const FORGETS_REMEMBERED_MAX: usize = 100_000;
/// Bytes of profiles on disk that a forget looks through before what was shown meanwhile is
/// written down: at a GB a second a third of the interval in which that is promised.
pub const FORGET_STEP_BYTES: usize = 64 << 20;
/// How often profiles that nothing asks for any more are dropped from memory.
pub const PROFILE_SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Time zones that one thread remembers the hour of: the time zone database has some six hundred
/// names.
pub const TIME_ZONES_REMEMBERED_MAX: usize = 1_024;

// ---- Reports and replays ---------------------------------------------------------------------

/// Minutes in one page: a day of 24 hours.
pub const MINUTES_PAGE_MAX: u32 = 1_440;
/// Days of one range of reports: a year, and the month that it is compared with.
pub const REPORT_DAYS_MAX: i64 = 400;
/// Rows of one answer of GetStats before it is cut in pages; each is held while they are summed.
/// A year of days for some hundred ads fits.
pub const STATS_ROWS_MAX: usize = 250_000;
/// Reports that are put together at once; further ones wait. Each holds its rows, and a reader of
/// the store.
pub const REPORTS_AT_ONCE_MAX: usize = 8;
/// How often a watcher looks for what has changed: twice as often as a person sees.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// Watchers at once: every screen of a large team. Each reads the store once an interval.
pub const WATCHERS_MAX: usize = 256;
/// Minutes before the last closed one in which a watcher still sees what comes late.
pub const WATCH_LATE_MINUTES: i64 = 15;
/// Minutes that a watcher looks at, however far counting is behind.
pub const WATCH_MINUTES_MAX: i64 = 1_440;
/// Ads in one answer of ListTopAds. The minutes of each are read one by one.
pub const TOP_ADS_MAX: u32 = 100;
/// Ads there where the caller does not say.
pub const TOP_ADS_DEFAULT: u32 = 10;
/// Minutes that ListTopAds looks back: a day.
pub const TOP_MINUTES_MAX: u32 = 1_440;
/// Minutes there where the caller does not say.
pub const TOP_MINUTES_DEFAULT: u32 = 60;
/// Events in one message of a replay: at ids of full length some 600 KiB, well below
/// [`ADMIN_MESSAGE_BYTES_MAX`].
pub const REPLAY_EVENTS_MAX: usize = 1_000;
const _: () = assert!(REPLAY_EVENTS_MAX * (5 * ID_BYTES_MAX + 64) <= ADMIN_MESSAGE_BYTES_MAX);
/// Files that are replayed at once: beside them live events must get through.
pub const REPLAYS_MAX: usize = 2;
/// A replay whose caller sends nothing for so long is ended.
pub const REPLAY_STALL_MAX: Duration = Duration::from_secs(30);
/// Ads and zones that one replay remembers the numbers of; beyond it they are asked for anew.
pub const REPLAY_NAMES_MAX: usize = 100_000;
/// A replayed event may lie so far ahead of this node's clock: clocks differ.
pub const REPLAY_AHEAD_MAX: Duration = Duration::from_secs(60);

// ---- TLS and identities ----------------------------------------------------------------------

/// Bytes of a file that a setting names: some hundred certificates, or all identities.
pub const NAMED_FILE_BYTES_MAX: u64 = 1 << 20;
/// How often such files are looked at for a change: a replaced certificate or a withdrawn token is
/// no emergency of less than a few seconds, and reading some KB costs nothing.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(2);
/// How long a TLS handshake may take: two round trips, with room for retransmissions.
pub const TLS_HANDSHAKE_MAX: Duration = Duration::from_secs(5);
const _: () =
    assert!(TLS_HANDSHAKE_MAX.as_millis() < FIRST_WORD_MAX.as_millis(), "then comes the preface");
/// Identities of the admin door. Each call compares its token with all of them, in some 10 us.
pub const IDENTITIES_MAX: usize = 1_000;

// ---- How long we wait, and how much at once --------------------------------------------------

/// The store's head is asked for this often, whatever the feed says: push is only a hint.
pub const REFRESH_INTERVAL: Duration = Duration::from_millis(200);
/// A load that was refused is tried again after this, and at once when the head has moved: all of
/// the catalogue is read for it, and somebody has to mend the store first.
pub const RELOAD_RETRY: Duration = Duration::from_secs(2);
/// Rows of changes that are read at once; beyond it a reload is cheaper.
pub const DELTA_ROWS_MAX: usize = 200_000;
/// A node that the others have not heard of for so long is no longer known: it has been taken
/// away without a goodbye. Until then it counts as silent, as it may still serve.
pub const NODE_REMEMBERED: Duration = Duration::from_secs(600);
/// A node says that it lives this often.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A node is live when it was heard of within this: two heartbeats may be lost.
pub const NODE_LIVE: Duration = Duration::from_secs(3);
const _: () = assert!(NODE_LIVE.as_millis() >= 3 * HEARTBEAT_INTERVAL.as_millis());
/// Clocks that are further apart than this are said to be: windows and flights begin and end by
/// them.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(1);
/// How long verdicts are counted before other calls of the same core get a turn: far below what a
/// caller sees. A million ads took 0.5 s on the machine of BENCHMARKS.md: some 2,000 turns.
pub const EXPLAIN_TURN: Duration = Duration::from_micros(250);
/// Candidates whose verdicts are counted between two looks at the clock: some 40 us, 0.12 ms among a
/// million, whose campaigns are in no cache, or a few ms
/// where each has the longest expression.
pub const EXPLAIN_STEP: usize = 256;
/// A profile read may take this long where the caller sets no deadline.
pub const PROFILE_READ_MAX: Duration = Duration::from_millis(5);
/// A profile read on the admin door: whoever asks what is known of a visitor waits for the answer.
pub const PROFILE_SHOWN_WAIT: Duration = Duration::from_secs(2);
/// ForgetUser waits this long for every node to follow: above what a node needs to be missed and
/// to count as gone.
pub const FORGET_WAIT_MAX: Duration = Duration::from_secs(10);
const _: () = assert!(FORGET_WAIT_MAX.as_millis() > NODE_LIVE.as_millis());
/// Open connections on one door, where the process may open so many files; see
/// [`crate::doors::connections_max`].
pub const CONNECTIONS_MAX: usize = 10_000;
/// Files that connections leave to the store.
pub const FILES_RESERVED: usize = 256;
/// Bytes of HTTP/2's preface: a peer that has said them can be asked for signs of life.
pub const FIRST_WORD_BYTES: usize = 24;
/// Bytes of answers that a connection gathers until they go out: what some hundred decisions take.
/// A peer that takes none costs so much memory, beside HTTP's own buffers.
pub const OUTBOX_BYTES_MAX: usize = 64 << 10;
/// Accepted connections on their way to the core that will serve them.
pub const ACCEPT_QUEUE_MAX: usize = 1_024;
/// A peer that has not said a word so long after it connected is let go.
pub const FIRST_WORD_MAX: Duration = Duration::from_secs(10);
/// Calls in flight on one connection of an admin or event door; further ones wait at the caller.
/// Watchers have no end of their own: what else their caller asks goes on beside all of them.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 1_024;
const _: () = assert!(STREAMS_PER_CONNECTION_MAX as usize >= 2 * WATCHERS_MAX);
/// Calls in flight on one connection of a decision door; further ones wait at the caller, who can
/// give them up for nothing. At half a millisecond each, one connection carries 500,000 a second.
pub const DECISIONS_PER_CONNECTION_MAX: u32 = 256;
/// Calls that one decision thread has read and not answered; further ones are refused. Decisions
/// that wait for the store for as long as they may, at 100,000 a second on one thread, are 500; and
/// each takes some ten kilobytes.
pub const CALLS_PER_THREAD_MAX: usize = 2_048;
const _: () = assert!(CALLS_PER_THREAD_MAX >= 8 * DECISIONS_PER_CONNECTION_MAX as usize);
/// How long a caller of a decision waits who does not say so (`grpc-timeout`): after half of it, as
/// of any deadline, a call that has not had its turn is refused. A page does not wait longer.
pub const TIMEOUT_ASSUMED: Duration = Duration::from_secs(1);
/// When a refused caller may ask again, in milliseconds: some time between these two. An overload
/// that lasts is answered by another node, or by nobody.
pub const RETRY_PUSHBACK_MS: (u32, u32) = (50, 150);
/// Bytes of a call's headers.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;
/// A quiet connection is asked for a sign of life this often, and closed when none comes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long that sign may take.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// After the last call in flight is answered, a draining server waits this long for peers that
/// say nothing, and then closes.
pub const DRAIN_QUIET: Duration = Duration::from_millis(300);
const _: () = assert!(DRAIN_QUIET.as_millis() < 10_000, "inside the default hard deadline");
/// SQLite waits this long for another writer of the same file.
pub const SQLITE_BUSY: Duration = Duration::from_secs(5);
/// An answer that its caller has not taken so long after the catalogue changed is called off:
/// some round trips for a healthy peer, and well inside the kill switch's second.
pub const ANSWER_PATIENCE: Duration = Duration::from_millis(300);
const _: () = assert!(ANSWER_PATIENCE.as_millis() < STATUS_WAIT_DEFAULT.as_millis());
/// An import whose caller sends nothing for so long is ended: others wait for their turn.
pub const IMPORT_STALL_MAX: Duration = Duration::from_secs(30);

/// Bytes of a user agent that are looked at: the longest of the known bots' has 285.
pub const USER_AGENT_BYTES_USED_MAX: usize = 512;
/// How far ahead of this node's clock a trusted caller's may be.
pub const OCCURRED_AHEAD_MAX: Duration = Duration::from_secs(60);
/// How long the body of a `POST /events` may take: a megabyte over a phone's slow line.
pub const EVENT_BODY_MAX: Duration = Duration::from_secs(20);
/// How long the store may take to name an ad that this node does not know: somebody waits for the
/// page behind it.
pub const LANDING_WAIT_MAX: Duration = Duration::from_secs(2);
/// Holds of one call that are settled at once: the store answers many over one connection.
pub const SETTLED_AT_ONCE_MAX: usize = 64;

// ---- Events on their way to the log ----------------------------------------------------------

/// Events that wait for the log; further callers wait for room. A second and a half of the
/// mission's load, some 15 MB: more than waits where the log answers at all.
pub const EVENTS_WAITING_MAX: usize = 65_536;
/// Events in one batch of the log: at the usual 100 bytes 400 KB, so that a counter takes several
/// of them into one transaction, and a Redis is not busy for long with one.
pub const LOG_BATCH_EVENTS_MAX: usize = 4_096;
/// An append that has not answered within this has failed, and its events go to the disk. Above
/// what a healthy store ever takes, and a click waits for it, so not much.
pub const LOG_APPEND_MAX: Duration = Duration::from_secs(2);
const _: () = assert!(LOG_APPEND_MAX.as_millis() > REDIS_CALL_MAX.as_millis());
/// Where the disk has not taken what is spilled within this, it is lost: the visitor goes on.
pub const SPILL_WRITE_MAX: Duration = Duration::from_secs(2);
/// Bytes of the spill file; the default of `spill_bytes_max`: four minutes of the mission's load, or
/// two days of fifty events a second.
pub const SPILL_BYTES_DEFAULT: u64 = 1 << 30;
/// Bytes of one frame of it; a larger number is damage. A batch of events with the longest ids
/// that a door takes fits.
pub const SPILL_FRAME_BYTES_MAX: usize = 8 << 20;
/// Bytes of it that go to the log at once, but for the last frame: few appends, each within
/// [`LOG_APPEND_MAX`] on a slow machine.
pub const SPILL_PORTION_BYTES: u64 = 1 << 20;
/// While the log is away, it is tried this often.
pub const SPILL_RETRY: Duration = Duration::from_millis(500);
/// Batches that one transaction trims on the embedded store: about 10 ms of its writer.
pub const LOG_TRIM_ROWS: usize = 1_000;
/// Batches that one command trims on Redis: about a millisecond.
pub const REDIS_TRIM_BATCHES: usize = 1_000;
/// Batches that one command reads from Redis.
pub const REDIS_READ_BATCHES_MAX: usize = 256;

// ---- Redis -----------------------------------------------------------------------------------

/// A call to Redis that has no reply within this has none: the connection is made anew. Ten times
/// what our longest script takes on a slow machine, and a watchdog's interval and this together
/// find a half-open connection in under two seconds.
pub const REDIS_CALL_MAX: Duration = Duration::from_secs(1);
/// A connection that is not there within this is given up.
pub const REDIS_CONNECT_MAX: Duration = Duration::from_secs(1);
/// A connection is asked for a sign of life this often.
pub const REDIS_WATCH_INTERVAL: Duration = Duration::from_millis(500);
const _: () = assert!(REDIS_WATCH_INTERVAL.as_millis() + REDIS_CALL_MAX.as_millis() < 5_000);
/// The first pause before another attempt to connect.
pub const REDIS_BACKOFF_MIN: Duration = Duration::from_millis(20);
/// The longest: a server that came back is found again well within two seconds.
pub const REDIS_BACKOFF_MAX: Duration = Duration::from_millis(250);
const _: () = assert!(REDIS_BACKOFF_MAX.as_millis() + REDIS_CONNECT_MAX.as_millis() < 2_000);
/// A connection is made anew at this age, so that a changed name or balance is followed.
pub const REDIS_CONNECTION_AGE_MAX: Duration = Duration::from_secs(1_800);
/// Commands on their way into one connection; further callers wait, within their own bounds.
pub const REDIS_QUEUE_MAX: usize = 1_024;
/// A cluster is asked who has what this often, beside whenever a node says that it has moved.
pub const REDIS_TOPOLOGY_INTERVAL: Duration = Duration::from_secs(1);
/// Rows that one script writes or one command reads: about a millisecond of Redis's time, in
/// which no visitor's profile is read.
pub const REDIS_PART_ROWS: usize = 200;
/// Rows of a staged change that one script folds in: as above, with what it removes.
pub const REDIS_FOLD_ROWS: usize = 100;
/// Changed rows that one script reads at one version; more are read part by part.
pub const REDIS_SCRIPT_ROWS_MAX: usize = 1_000;
/// A staged change that nobody goes on with is gone after this.
pub const REDIS_STAGE_LIFE: Duration = Duration::from_secs(300);
/// Changes, and beside them lines of imports, in the audit log: memory is dearer than disk, so a
/// tenth of what the embedded store keeps.
pub const REDIS_AUDIT_ROWS_MAX: u64 = AUDIT_ROWS_MAX / 10;
/// Before a store that came back empty is filled, every node has this long to offer what it
/// holds: some polls.
pub const REFILL_WAIT_US: u64 = 450_000;
const _: () = assert!(REFILL_WAIT_US as u128 >= 2 * REFRESH_INTERVAL.as_micros());
/// An offer that was not repeated for so long is void: its node has gone.
pub const REFILL_OFFER_LIFE_US: u64 = 1_500_000;
/// A refilled store begins so far above the newest version on any disk: changes that were
/// acknowledged in the moment before the loss, and reached no disk, are below.
pub const REFILL_VERSIONS_JUMP: u64 = 1_000;
/// And so far above the last serials, for the objects of these changes.
pub const REFILL_SERIALS_JUMP: u32 = 1_000_000;
/// The same for accounts, of which few are made in a moment: who is forgotten in every account is
/// looked for under every serial that one may have had.
pub const REFILL_ACCOUNTS_JUMP: u32 = 100;

// ---- The snapshot on disk --------------------------------------------------------------------

/// Bytes of changes behind the whole catalogue, beyond its own size, that make it be written anew.
pub const SNAPSHOT_CHANGES_BYTES_MIN: u64 = 16 << 20;
/// Bytes of a frame: a megabyte of objects, or one that is as large as a door lets in; a larger
/// number is damage.
pub const SNAPSHOT_FRAME_BYTES_MAX: usize = 8 << 20;
/// A snapshot that could not be written is tried again after this, as all of it has to be read.
pub const SNAPSHOT_RETRY: Duration = Duration::from_secs(10);

// ---- Profiles in Redis -----------------------------------------------------------------------

/// Commands that go out in one pipeline: some 100 KiB for a server, and a millisecond of its time.
pub const PROFILE_BATCH_MAX: usize = 256;
/// Bytes of one pipeline, but for its last command: 256 full lists, a tenth of a second of a
/// server's time on a slow machine, and so well inside [`REDIS_CALL_MAX`].
pub const PROFILE_BATCH_BYTES_MAX: usize = 2 << 20;
/// Pipelines in flight to one server; what comes meanwhile gathers for the next. At a round trip
/// of a millisecond a million commands a second fit, and a server that is frozen holds no more.
pub const PROFILE_FLIGHTS_MAX: usize = 4;
/// Commands that wait for one server; further ones fail at once. A second of the mission's load,
/// far longer than any decision waits.
pub const PROFILE_WAITING_MAX: usize = 65_536;
/// Times that a command is sent again because its slot moved or its script was lost.
pub const PROFILE_RESENDS_MAX: u8 = 8;
/// The pause before: what it takes to ask a cluster who has what.
pub const PROFILE_RESEND_PAUSE: Duration = Duration::from_millis(5);
/// Exposures that the store did not take are sent again this often.
pub const PROFILE_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Visitors whose exposures are sent again at once; when it succeeds, others follow.
pub const PROFILE_RETRIES_MAX: usize = PROFILE_BATCH_MAX;
/// Exposures that have been refused for so long are a state that an operator should know of.
pub const PROFILE_TROUBLE_MIN: Duration = Duration::from_secs(1);
/// Visitors that a node remembers; at the usual three exposures some 500 MB. Above it, new
/// visitors are shown no capped ad rather than one too many.
pub const PROFILES_REMEMBERED_MAX: usize = 500_000;
/// Beyond so many, visitors are forgotten earlier: the rest is room for the visitors that come
/// until the next look at it, [`PROFILE_RETRY_INTERVAL`] later.
pub const PROFILES_REMEMBERED_HIGH: usize = PROFILES_REMEMBERED_MAX / 4 * 3;
/// A visitor who did not come for so long is no longer remembered: longer than most visits, and
/// than most outages in which only the memory knows the caps.
pub const PROFILE_REMEMBERED: Duration = Duration::from_secs(600);
/// A decision may take what the store said so long ago at most, where a node is told so: longer, and
/// segments and showings would be known elsewhere noticeably later than they are made.
pub const PROFILE_FRESH_MAX: Duration = Duration::from_secs(1);
/// A flush, or a clean stop, waits so long for the store: a store that came back is found again
/// within it, and it fits a stop's deadline.
pub const PROFILE_FLUSH_MAX: Duration = Duration::from_secs(2);
const _: () = assert!(PROFILE_FLUSH_MAX.as_millis() >= REDIS_CALL_MAX.as_millis());
/// Damaged profiles are logged this often at most, with their number.
pub const PROFILE_DAMAGE_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Entries that tell the nodes of forgotten visitors live so long: a node that was away for
/// longer drops all that it remembers.
pub const FORGETS_KEPT: Duration = Duration::from_secs(3_600);
/// Such entries at most, some 100 bytes each; beyond it the same.
pub const FORGETS_KEPT_MAX: usize = 10_000;
/// Accounts whose profiles are forgotten at once.
pub const FORGETS_AT_ONCE_MAX: usize = 1_024;

// ---- Estimates -------------------------------------------------------------------------------

/// Sums of impressions and clicks are added to the store this often: what a crash loses, and what
/// a live view is behind.
pub const INCREMENT_FLUSH_INTERVAL: Duration = Duration::from_millis(100);
/// Sums that wait for a flush; some 60 bytes each. A million events a second of as many different
/// pairs of zone and ad would fill it between two flushes; while the store is away the usual
/// pairs go on being summed, and what finds no room is dropped and counted.
pub const INCREMENT_SUMS_MAX: usize = 100_000;
/// Accounts whose sums are on their way to Redis at once.
pub const INCREMENT_CALLS_MAX: usize = 32;
/// The last number of a sender is kept so long after its last flush: far longer than it would
/// send the same one again.
pub const INCREMENT_SENDER_KEPT: Duration = Duration::from_secs(86_400);
/// Days that estimates are kept: a month of a budget, and some to look back.
pub const ESTIMATE_DAYS_KEPT: i32 = 35;
// ---- Counting --------------------------------------------------------------------------------

/// How far an event may come behind the newest of its partition and still be in time. Doors stamp
/// by their own clocks, which are a second apart at most, and a group commit takes milliseconds;
/// callers that are trusted with `occurred_at` gather for a minute or so. What comes later still
/// is counted beside the minute, and billed all the same.
pub const LATENESS: Duration = Duration::from_secs(120);
const _: () = assert!(LATENESS.as_millis() > 10 * CLOCK_SKEW_MAX.as_millis());
/// An id is known so long after it was counted: a door repeats within seconds, a reader that
/// reloads a page within minutes. The nightly recount knows every repeat.
pub const IDS_KEPT: Duration = Duration::from_secs(600);
/// The same for conversions: shops report the same order again for weeks, and a conversion's
/// token lives 30 days.
pub const CONVERSION_IDS_KEPT: Duration = Duration::from_secs(35 * 86_400);
const _: () = assert!(CONVERSION_IDS_KEPT.as_secs() >= SERIAL_AFTERLIFE.as_secs());
/// Bytes of the log that are read, and counted in one transaction: some 10,000 events, a tenth of
/// a second. A transaction costs a sync whatever is in it.
pub const COUNT_READ_BYTES_MAX: usize = 1 << 20;
/// The log's end is looked at again after this: well within the two seconds from a click to its
/// minute.
pub const COUNT_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A promise of a partition where nothing happens is written when it would move by so much: each
/// is a synced write, and a minute waits for two others in any case.
pub const PROMISE_STEP: Duration = Duration::from_secs(5);
/// After an error of the log or of the counts it is tried again after this, and then after twice
/// that, and so on.
pub const COUNT_RETRY_MIN: Duration = Duration::from_millis(50);
/// At most after this: a store that came back is found again well within two seconds.
pub const COUNT_RETRY_MAX: Duration = Duration::from_secs(1);
/// A counter says so often that it still has its partitions.
pub const CLAIM_RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// One that has not said so for so long has lost them: four renewals may be late.
pub const CLAIM_LIFE: Duration = Duration::from_secs(5);
const _: () = assert!(CLAIM_LIFE.as_millis() >= 4 * CLAIM_RENEW_INTERVAL.as_millis());
/// Ids that one step of a sweep looks at: some 20 ms, in which nothing else is counted on SQLite.
pub const SWEEP_ROWS: usize = 5_000;
/// A sweep begins so long after the one before it. Ids that must stay are looked at by each, so
/// ten times in their life.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// What is counted is dropped from the log this often, once it is old enough.
pub const TRIM_INTERVAL: Duration = Duration::from_secs(10);
/// Events of one ad in a minute that make it hot: a quarter of the 50,000 a second that one
/// counter must manage. Spread over four partitions, it is a sixteenth on each.
pub const HOT_EVENTS_PER_MIN: u64 = 50_000 * 60 / 4;
/// Ads that one partition counts the events of. Counting is off by at most the minute's events
/// divided by this number, so by less than a hundredth of what makes an ad hot at a million a
/// second.
pub const HOT_TRACKED_MAX: usize = 8_192;
const _: () = assert!(60 * 1_000_000 / HOT_TRACKED_MAX as u64 <= HOT_EVENTS_PER_MIN / 100);
/// An ad becomes hot, or stops being it, so long after it is written down, so that every door has
/// read it by then.
pub const HOT_NOTICE: Duration = Duration::from_secs(60);
/// Doors read the list this often.
pub const HOT_POLL_INTERVAL: Duration = Duration::from_secs(5);
const _: () = assert!(HOT_NOTICE.as_millis() >= 10 * HOT_POLL_INTERVAL.as_millis());
/// It stops after so many minutes with less than half of what makes it hot.
pub const HOT_COLD_MINUTES: u32 = 5;
/// An entry of the hot list is kept so long after its end: tokens of its time are counted by it.
pub const HOT_KEPT: Duration = SERIAL_AFTERLIFE;

// ---- PostgreSQL ------------------------------------------------------------------------------

/// A connection that is not there within this, with its tables, is given up.
pub const POSTGRES_CONNECT_MAX: Duration = Duration::from_secs(5);
/// A peer that does not even acknowledge what it is sent for so long is gone; and so long a
/// transaction whose client has gone holds a partition.
pub const POSTGRES_SILENCE_MAX: Duration = Duration::from_secs(10);
/// A report's query is called off, by the server itself, after this.
pub const POSTGRES_READ_MAX: Duration = Duration::from_secs(30);
/// How long a decision that only an impression makes an exposure holds its place: exchanges tell
/// within a second or two who has won, and a page is shown soon after that.
pub const HOLD: Duration = Duration::from_secs(60);
/// The same, as an instant is measured.
pub const HOLD_US: i64 = 60_000_000;
const _: () = assert!(HOLD.as_micros() == HOLD_US.unsigned_abs() as u128);
