//! The packets of a measurement, from the file that it has written.

use std::path::Path;

use anyhow::Context as _;
use headway_estimate::stream::parse_table;
use headway_estimate::{Gaps, Settings, StreamRecord};
use headway_units::{Duration, Rate};

/// A file of streams, loaded into memory.
pub(crate) struct StreamFile(Vec<StreamRecord>);

/// The gaps of a stream before and after denoising.
pub(crate) struct Denoised {
    pub(crate) raw: Gaps,
    pub(crate) denoised: Gaps,
    /// Index of the first gap kept by end elimination.
    pub(crate) first_kept: usize,
}

impl StreamFile {
    pub(crate) fn read(path: &Path) -> anyhow::Result<StreamFile> {
        let text = headway_input::text(path, headway_input::TRACE)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let streams = parse_table(&text, path, None)?;
        Ok(StreamFile(streams.into_iter().map(|stream| stream.record).collect()))
    }

    /// Returns the p-stream of `gaps` gaps that best shows what BASS recovers: its receive gaps depart from
    /// the send gaps within the stream, and it keeps as much as possible of the variation of the send rate.
    pub(crate) fn clearest(&self, gaps: usize, capacity: Rate) -> Option<Denoised> {
        // Start-up streams have a different shape; p-streams come several in a row.
        let in_a_row = self.0.iter().filter(|stream| stream.arrivals.len() > 2 * gaps);
        let parts = in_a_row.flat_map(|stream| stream.split(gaps));
        parts.filter_map(|p_stream| denoise(&p_stream, capacity)).max_by_key(|d| (d.parts(), d.spread()))
    }
}

impl Denoised {
    /// Whether receive gaps exceed send gaps at the end but not at the beginning.
    fn parts(&self) -> bool {
        let excess = |at: Option<(&Duration, &Duration)>| at.is_some_and(|(send, receive)| receive > send);
        let mut pairs = self.denoised.send.iter().zip(&self.denoised.receive);
        !excess(pairs.next()) && excess(pairs.next_back())
    }

    /// Returns the remaining variation of the send gaps.
    fn spread(&self) -> Duration {
        let kept = &self.denoised.send;
        kept.iter().max().copied().unwrap_or_default() - kept.iter().min().copied().unwrap_or_default()
    }
}

/// Returns `None` for a stream that BASS cannot use.
fn denoise(stream: &StreamRecord, capacity: Rate) -> Option<Denoised> {
    let mut raw = Gaps::default();
    stream.gaps(&mut raw).ok()?;
    let mut denoised = raw.clone();
    let settings = Settings::for_link(stream.packet, capacity);
    let passes = settings.denoise.apply(&mut denoised, &mut Vec::<Duration>::new()).ok()?;
    Some(Denoised { raw, denoised, first_kept: passes.first })
}
