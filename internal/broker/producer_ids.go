package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// A producer id consists of the sign bit, which is 0, the node id, and a counter in the lowest bits
// (ADR 0025).
const (
	producerCounterBits = 51 // counting microseconds, the counter lasts for 71 years
	producerCounterMax  = 1<<producerCounterBits - 1
	producerNodeMax     = 1<<(63-producerCounterBits) - 1
)

// producerEpoch is the time at which firstCounter is 0.
var producerEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// producerIDBlock is the number of ids that one write of the file reserves. After a restart, the
// unused ids of the last block are skipped.
const producerIDBlock = 1000

// producerIDsFile is the name of a file in the data directory;
// docs/internals/format/producer-ids.md describes its format.
const producerIDsFile = "producer-ids"

// errNotBegun means that the broker has a new disk and has not registered yet. Clients retry after
// this error.
var errNotBegun = fmt.Errorf("%w: no producer ids before this broker is registered",
	coordinator.ErrLoading)

// ProducerIDs allocates producer ids that are unique in the cluster, without coordination (ADR
// 0025, ADR 0181).
type ProducerIDs struct {
	fsys vfs.FS
	file string
	node int32

	// lost describes why the file was malformed; nil if the file was valid or did not exist.
	lost error

	mu struct {
		sync.Mutex
		// next is the counter of the next id. reserved is the counter in the file. A counter may be used
		// only if it is below reserved.
		next, reserved int64
		// true if Begin has succeeded, or is not needed because the file was valid
		begun bool
	}
}

// OpenProducerIDs reads the counter from the file in the data directory. If the file does not exist
// or is malformed (Lost), the counter starts from the clock, and Begin raises it if the registered
// bound is higher. OpenProducerIDs fails if node does not fit into an id, or if the file cannot be
// read.
func OpenProducerIDs(fsys vfs.FS, dir string, node int32, now func() time.Time) (*ProducerIDs,
	error) {
	if node < 0 || node > producerNodeMax {
		return nil, fmt.Errorf(
			"node id %d does not fit into a producer id: want 0 to %d",
			node,
			producerNodeMax,
		)
	}
	p := &ProducerIDs{fsys: fsys, file: filepath.Join(dir, producerIDsFile), node: node}
	content, err := fsys.ReadFile(p.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.mu.reserved = firstCounter(now())
	case err != nil:
		return nil, fmt.Errorf("read producer ids: %w", err)
	default:
		if p.mu.reserved, err = parseProducerIDs(content); err != nil {
			p.lost = fmt.Errorf("read producer ids from %s: %w", p.file, err)
			p.mu.reserved = firstCounter(now())
		}
	}
	p.mu.next, p.mu.begun = p.mu.reserved, err == nil
	return p, nil
}

// Bound returns an upper bound of the counters that have been allocated from this disk, or can be
// allocated before the broker registers again.
func (p *ProducerIDs) Bound() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.reserved + metadata.ProducerIDsAhead
}

// Lost returns the error that describes why the file was malformed, or nil if the file was valid or
// did not exist. The broker reports the loss when it registers. The metadata store then raises the
// registered bound above every id that was allocated from this disk (ADR 0181).
func (p *ProducerIDs) Lost() error { return p.lost }

// Begin starts the allocation on a disk without a usable file. bound is the registered bound. The
// counter starts at bound - ProducerIDsAhead, or at the clock if that is higher. Begin writes the
// file immediately, so that the disk is treated as new only once. If the file was valid, Begin does
// nothing.
func (p *ProducerIDs) Begin(bound int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.begun {
		return nil
	}
	p.mu.next = max(p.mu.next, bound-metadata.ProducerIDsAhead)
	p.mu.reserved = p.mu.next
	if err := p.reserveLocked(); err != nil {
		return err
	}
	p.mu.begun = true
	return nil
}

// reserveLocked reserves the next block of counters in the file.
func (p *ProducerIDs) reserveLocked() error {
	reserved := p.mu.reserved + producerIDBlock
	if err := vfs.WriteFileAtomic(p.fsys, p.file, formatProducerIDs(reserved)); err != nil {
		return fmt.Errorf("%w: reserve producer ids: %w", logstore.ErrStorage, err)
	}
	p.mu.reserved = reserved
	return nil
}

// rewrite writes the damaged file again.
func (p *ProducerIDs) rewrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.begun {
		return errNotBegun // Begin writes the file
	}
	return vfs.WriteFileAtomic(p.fsys, p.file, formatProducerIDs(p.mu.reserved))
}

// check returns an error if content is not the expected content of the file.
func (p *ProducerIDs) check(content []byte) error {
	reserved, err := parseProducerIDs(content)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.mu.begun && reserved != p.mu.reserved {
		return fmt.Errorf("the file reserves the counters below %d, and the broker those below %d",
			reserved, p.mu.reserved)
	}
	return err
}

// Next returns an unused id. If no block can be reserved, for example on a full disk, Next fails
// with an error that wraps logstore.ErrStorage, and clients retry. Next holds the lock during the
// write, because other callers need an id from the same block.
func (p *ProducerIDs) Next() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.begun {
		return 0, errNotBegun
	}
	if p.mu.next == p.mu.reserved {
		if err := p.reserveLocked(); err != nil {
			return 0, err
		}
	}
	id, err := producerID(p.node, p.mu.next)
	if err == nil {
		p.mu.next++
	}
	return id, err
}

// producerID composes an id from a node id and a counter. It fails if the counter does not fit into
// producerCounterBits.
func producerID(node int32, counter int64) (int64, error) {
	if counter < 0 || counter > producerCounterMax {
		return 0, fmt.Errorf("producer ids of node %d are exhausted at %d", node, counter)
	}
	return int64(node)<<producerCounterBits | counter, nil
}

// firstCounter returns the first counter for a disk without a file, before the registered bound is
// considered. It is the number of microseconds since producerEpoch. If the clock has not been set
// back, it is above all counters that the node has allocated from earlier disks, because a broker
// allocates fewer than a million ids per second and restarts less than a thousand times per second,
// and each restart skips at most one block of 1,000 ids.
func firstCounter(now time.Time) int64 { return max(now.Sub(producerEpoch).Microseconds(), 0) }

// formatProducerIDs returns the content of the file. Its two lines are the version of the format,
// and the first counter that is not reserved.
func formatProducerIDs(reserved int64) []byte { return fmt.Appendf(nil, "0\n%d\n", reserved) }

func parseProducerIDs(content []byte) (int64, error) {
	var version, reserved int64
	if n, err := fmt.Sscanf(string(content), "%d\n%d\n", &version, &reserved); err != nil ||
		n != 2 {
		return 0, errors.New("want two lines: version and first free counter")
	}
	if !bytes.Equal(formatProducerIDs(reserved), content) || reserved < 0 ||
		reserved > producerCounterMax {
		return 0, fmt.Errorf(
			"version %d, first free counter %d: want version 0 and a counter from 0 to %d",
			version,
			reserved,
			int64(producerCounterMax),
		)
	}
	return reserved, nil
}
