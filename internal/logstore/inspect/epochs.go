package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// epochFile is the name of the file that contains a partition's leader epochs
// (docs/internals/format/checkpoints.md).
const epochFile = "leader-epoch-checkpoint"

var errCheckpoint = errors.New("invalid checkpoint")

// epochLine is an entry of leader-epoch-checkpoint.
type epochLine struct {
	File        string `json:"file"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	StartOffset int64  `json:"startOffset"`
}

func (l epochLine) text() string {
	return fmt.Sprintf("epoch %d from offset %d", l.LeaderEpoch, l.StartOffset)
}

// parseEpochs decodes leader-epoch-checkpoint. It fails with errCheckpoint if the content is
// malformed or if the entries do not ascend.
func parseEpochs(path string, content []byte) ([]epochLine, error) {
	lines, err := checkpointLines(content)
	if err != nil {
		return nil, err
	}
	var epochs []epochLine
	for _, line := range lines {
		l := epochLine{File: path}
		epoch, start, ok := strings.Cut(line, " ")
		number, err := strconv.ParseInt(epoch, 10, 32)
		l.LeaderEpoch = int32(number)
		if err == nil {
			l.StartOffset, err = strconv.ParseInt(start, 10, 64)
		}
		if !ok || err != nil {
			return nil, fmt.Errorf("%w: line %q", errCheckpoint, line)
		}
		if n := len(epochs); l.LeaderEpoch < 0 || l.StartOffset < 0 ||
			n > 0 && (l.LeaderEpoch <= epochs[n-1].LeaderEpoch ||
				l.StartOffset <= epochs[n-1].StartOffset) {
			return nil, fmt.Errorf("%w: %s does not ascend", errCheckpoint, l.text())
		}
		epochs = append(epochs, l)
	}
	return epochs, nil
}

// epochHistory compares the leader epochs in the batches with leader-epoch-checkpoint and with each
// other.
type epochHistory struct {
	path   string
	lines  []epochLine
	read   bool  // true if lines is the content of the file
	latest int32 // largest leader epoch in the batches so far
	any    bool  // true if a batch was added
}

// loadEpochs reads the directory's leader-epoch-checkpoint. A missing file is not a problem,
// because a broker rebuilds it from the batches.
func (d *directory) loadEpochs() error {
	d.epochs.path = filepath.Join(d.path, epochFile)
	content, ok, err := d.v.readSmall(d.epochs.path)
	if err != nil || !ok {
		return err
	}
	if d.epochs.lines, err = parseEpochs(d.epochs.path, content); err != nil {
		d.v.find(d.epochs.path, 0, "%v", err)
		return nil
	}
	d.epochs.read = true
	if len(content) == 0 {
		d.v.note(d.epochs.path, "the file is empty, as in a replica of Apache Kafka that has no "+
			"records; the next start rebuilds it")
	}
	return nil
}

// add checks the leader epoch of a batch. The epochs of batches must not decrease, and must match
// leader-epoch-checkpoint. A batch below the file's first entry is not compared with the file,
// because the batch has no epoch or is below a log start that has advanced. The file of a running
// or killed broker may lack an epoch that starts above the recovery point; the next start finds
// that epoch in the batches.
func (h *epochHistory) add(v *verifier, f file, b batch) {
	epoch := b.LeaderEpoch()
	if h.any && epoch < h.latest {
		v.findAt(f, b, "leader epoch decreases from %d to %d", h.latest, epoch)
	}
	if !h.any || epoch > h.latest {
		h.latest, h.any = epoch, true
	}
	if !h.read {
		return
	}
	after, _ := slices.BinarySearchFunc(h.lines, b.BaseOffset()+1,
		func(l epochLine, o int64) int { return cmp.Compare(l.StartOffset, o) })
	switch {
	case after == len(h.lines) && b.BaseOffset() >= v.dir.synced &&
		(after == 0 || epoch > h.lines[after-1].LeaderEpoch):
	case len(h.lines) == 0 && epoch >= 0:
		v.findAt(f, b, "leader epoch %d, but %s has none", epoch, epochFile)
		h.read = false // reports only one problem for all batches
	case after > 0 && h.lines[after-1].LeaderEpoch != epoch:
		v.findAt(f, b, "leader epoch %d, but %s has %d at this offset", epoch, epochFile,
			h.lines[after-1].LeaderEpoch)
	}
}

// end checks the last entry of the file. An epoch may start at the end of the log, but not above
// it.
func (h *epochHistory) end(v *verifier, d *directory) {
	if n := len(h.lines); n > 0 && h.lines[n-1].StartOffset > d.next && !d.damaged {
		v.find(h.path, 0, "%s, but the log ends at %d", h.lines[n-1].text(), d.next)
	}
}
