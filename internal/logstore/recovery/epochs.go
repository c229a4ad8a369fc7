package recovery

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
)

// loadEpochs reads leader-epoch-checkpoint. If there is no usable file, recovery rebuilds the
// epochs from the batches. After a clean shutdown the file must have the checksum that Close
// stored.
func (r *recovery) loadEpochs() error {
	r.lastKnown.Epoch = leaderepoch.Cache{}.Latest()
	content, err := r.FS.ReadFile(filepath.Join(r.Dir, checkpoint.EpochsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read leader epochs: %w", err)
	}
	if err == nil && len(content) > 0 { // Apache Kafka creates empty files
		r.epochs, err = checkpoint.DecodeEpochs(content)
		if errors.Is(err, checkpoint.ErrVersion) { // CheckForeign has refused files of other programs
			r.epochs, err = checkpoint.RestoreVersion(content, checkpoint.DecodeEpochs)
			if err == nil {
				r.Logger.Warn("leader epochs have a damaged version; their values are used",
					"partition", r.ID)
			}
		}
		if errors.Is(err, checkpoint.ErrVersion) {
			return fmt.Errorf("read %s: %w", checkpoint.EpochsFile, err)
		}
		if err != nil {
			r.epochsUnusable = true
			r.Logger.Warn("malformed leader epochs; rebuilding them from the batches",
				"partition", r.ID, "error", err)
		} else {
			r.onDisk = append(leaderepoch.Cache{}, r.epochs...)
		}
	}
	if left := r.Closed.Epochs; left.Known &&
		left.Checksum != checkpoint.SummarizeEpochs(r.epochs).Checksum {
		r.rebuildEpochs("the file has changed since the last shutdown", left.Latest)
	}
	return nil
}

// rebuildEpochs makes recovery rebuild the leader epochs from the batches. latest is the latest
// epoch that is known from another source; it may have no batch.
func (r *recovery) rebuildEpochs(cause string, latest leaderepoch.Entry) {
	r.Logger.Warn("rebuilding leader epochs from the batches", "partition", r.ID,
		"cause", cause)
	r.epochs, r.onDisk, r.epochsUnusable, r.lastKnown = nil, nil, true, latest
}

// verifyEpochs compares the leader epochs in the file with batches below the recovery point, after
// an unclean shutdown: with the first batch of each segment, and with the last batch of the last
// segment. The file contains every epoch that starts below the recovery point (epochfile.File). So
// if the file contradicts such a batch, it does not belong to this state of the log. It may be an
// old copy, which is well-formed too.
func (r *recovery) verifyEpochs() error {
	if r.Clean || r.onDisk == nil {
		return nil
	}
	for i, h := range r.handles {
		positions := []int64{0}
		if i+1 == len(r.handles) && h.NextOffset() > h.Base() {
			last, err := h.Position(h.NextOffset() - 1)
			if err != nil {
				return fmt.Errorf("verify leader epochs with segment %d: %w", h.Base(), err)
			}
			positions = append(positions, last)
		}
		for _, position := range positions {
			header, err := h.HeaderAt(position)
			if errors.Is(err, io.EOF) {
				continue
			}
			if err != nil {
				return fmt.Errorf("verify leader epochs with segment %d: %w", h.Base(), err)
			}
			if header.LastOffset() < r.Saved.LogStart {
				continue // a truncation may have removed the epoch of records below the log start
			}
			if r.epochs.Contradicts(header.LeaderEpoch(), header.LastOffset()) {
				latest := leaderepoch.Entry{Epoch: -1}
				if n := len(r.epochs); n > 0 {
					latest = r.epochs[n-1]
				}
				r.rebuildEpochs(fmt.Sprintf("the batch at %d has epoch %d", header.BaseOffset(),
					header.LeaderEpoch()), latest)
				return nil
			}
		}
	}
	return nil
}
