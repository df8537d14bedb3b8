//! The same question put to a search library, tantivy: every ad that may be shown is scored, and
//! the best are kept. Exact, as ours is, so the scores must be the same to the bit.

use std::time::{Duration, Instant};

use tantivy::collector::TopDocs;
use tantivy::indexer::NoMergePolicy;
use tantivy::query::{AllQuery, BooleanQuery, ConstScoreQuery, Occur, Query, TermQuery};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::{
    DocId, Index, IndexWriter, ReloadPolicy, Score, Searcher, SegmentReader, TantivyDocument, Term,
};

use crate::data::{Aim, Request, ZoneFacts, word};

/// What the writer may take before it would have to cut a segment.
const WRITER_BYTES: usize = 1_000_000_000;
const ECPM: &str = "ecpm_micros";
/// More keywords than any request of this benchmark has.
const MATCHED_MAX: usize = 32;

/// One zone as tantivy has it: one segment, in memory.
pub(crate) struct Yardstick {
    searcher: Searcher,
    keyword: Field,
    /// Where the campaigns have a country clause.
    country: Option<Field>,
    factors: [f64; MATCHED_MAX + 1],
}

impl Yardstick {
    /// The zone in one segment.
    pub(crate) fn new(facts: &ZoneFacts) -> Self {
        let raw = TextFieldIndexing::default()
            .set_tokenizer("raw")
            .set_fieldnorms(false)
            .set_index_option(IndexRecordOption::Basic);
        let mut schema = Schema::builder();
        let keyword =
            schema.add_text_field("keyword", TextOptions::default().set_indexing_options(raw));
        let ecpm = schema.add_i64_field(ECPM, FAST);
        let country = schema.add_u64_field("country", INDEXED);
        let index = Index::create_in_ram(schema.build());
        let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES).unwrap();
        writer.set_merge_policy(Box::new(NoMergePolicy));
        for ad in &facts.ads {
            let mut document = TantivyDocument::new();
            document.add_i64(ecpm, ad.ecpm_micros);
            if let Some(number) = facts.countries[ad.campaign] {
                document.add_u64(country, number as u64);
            }
            for &number in &ad.words {
                document.add_text(keyword, word(number, false));
            }
            writer.add_document(document).unwrap();
        }
        writer.commit().unwrap();
        let segments = index.searchable_segment_ids().unwrap();
        if segments.len() > 1 {
            writer.merge(&segments).wait().unwrap();
        }
        writer.wait_merging_threads().unwrap();
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into().unwrap();
        let searcher = reader.searcher();
        assert_eq!(searcher.segment_readers().len(), 1);
        Self {
            searcher,
            keyword,
            country: (facts.kind.aim != Aim::Everybody).then_some(country),
            factors: std::array::from_fn(|matched| (1.1 + matched as f64).ln()),
        }
    }

    /// The scores of the best ads, best first, and what it took: the query's making is in it, as
    /// the look-up of our keywords is in ours.
    pub(crate) fn ask(&self, request: &Request) -> (Vec<f64>, Duration) {
        let began = Instant::now();
        let mut clauses = vec![(Occur::Must, self.eligible(request))];
        clauses.extend(request.words.iter().map(|word| {
            let term = Term::from_field_text(self.keyword, word);
            (Occur::Should, constant(TermQuery::new(term, IndexRecordOption::Basic)))
        }));
        let factors = self.factors;
        // Each ad's score comes as 1 and as many more as the request's keywords that it has.
        let tweak = move |segment: &SegmentReader| {
            let ecpm = segment.fast_fields().i64(ECPM).unwrap().first_or_default_col(0);
            move |ad: DocId, counted: Score| {
                ecpm.get_val(ad) as f64 / 1e6 * factors[counted as usize - 1]
            }
        };
        let best = TopDocs::with_limit(request.count).tweak_score(tweak);
        let found = self.searcher.search(&BooleanQuery::new(clauses), &best).unwrap();
        let took = began.elapsed();
        (found.into_iter().map(|(score, _)| score).collect(), took)
    }

    /// All ads, or those of campaigns for the request's country, each worth 1.
    fn eligible(&self, request: &Request) -> Box<dyn Query> {
        match self.country {
            None => Box::new(AllQuery),
            Some(country) => {
                let term = Term::from_field_u64(country, request.country as u64);
                constant(TermQuery::new(term, IndexRecordOption::Basic))
            }
        }
    }
}

/// What `query` finds, each worth 1.
fn constant(query: TermQuery) -> Box<dyn Query> {
    Box::new(ConstScoreQuery::new(Box::new(query), 1.0))
}
