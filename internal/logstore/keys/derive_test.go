package keys

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// cleaned is the model of an output segment: the batches and records of several sources, without
// the removed records.
type cleaned struct {
	world
	derivation *Derivation
	sources    []DerivationSource
}

// clean removes random records from the sources, adds the kept records to the model, and appends
// their batches to the derivation. It reads no data file.
func clean(t testing.TB, seed uint64, sources ...*world) *cleaned {
	c := &cleaned{world: world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 3)),
		fsys: sources[0].fsys, salt: sources[0].salt}}
	base := sources[0].segment.Base()
	c.derivation = NewDerivation(c.fsys, "/output.spool", base, c.salt)
	position := int64(0)
	for _, source := range sources {
		reader := source.open()
		removed := map[uint32]bool{}
		share := c.random.IntN(4) // share of the source's removed records, in thirds: 0 to 3
		for _, b := range source.batches {
			first := len(c.records)
			b.Position, b.FirstOrdinal = position, uint32(first)
			for i, r := range source.records[source.ordinal(b):][:b.Records] {
				if c.random.IntN(3) < share {
					removed[source.ordinal(b)+uint32(i)] = true
					continue
				}
				c.records = append(c.records, r)
			}
			if b.Records > 0 && len(c.records) == first && c.random.IntN(3) > 0 {
				// The batch is removed because no record remains. Otherwise it is kept without
				// records.
				continue
			}
			b.Records, b.BodyBytes = len(c.records)-first, 0
			for _, r := range c.records[first:] {
				b.BodyBytes += int64(r.BodyBytes)
			}
			b.CRC, b.SizeBytes = c.random.Uint32(), 61+c.random.IntN(1000)
			position += int64(b.SizeBytes)
			c.batches = append(c.batches, b)
			appended := b
			appended.BodyBytes = -5 // ignored, like FirstOrdinal: Append computes both
			if got := c.derivation.NextPosition(); got != b.Position {
				t.Fatalf("seed %d: next position %d, want %d", seed, got, b.Position)
			}
			appended.FirstOrdinal = 77
			c.must(c.derivation.Append(appended))
		}
		c.sources = append(c.sources, DerivationSource{
			Keys: reader, End: uint32(len(source.records)),
			Removed: func(ordinal uint32) bool { return removed[ordinal] },
		})
	}
	return c
}

// ordinal returns the ordinal of a batch's first record in this segment.
func (w *world) ordinal(b Batch) uint32 {
	for _, known := range w.batches {
		if known.BaseOffset == b.BaseOffset && known.LastOffset == b.LastOffset {
			return known.FirstOrdinal
		}
	}
	w.t.Fatalf("no batch at offset %d", b.BaseOffset)
	return 0
}

func (c *cleaned) finish() *Reader {
	c.t.Helper()
	_, err := c.derivation.Finish(context.Background(), c.sources, "/output.keys", Options{})
	c.must(err)
	c.must(c.derivation.Close())
	identity := c.derivation.spool.Identity()
	r, err := Open(c.fsys, "/output.keys", Expect{Identity: identity, SaltID: c.salt.ID()})
	c.must(err)
	c.t.Cleanup(func() { _ = r.Close() })
	return r
}

func neighbours(t testing.TB, seed uint64, count int) (all []*world) {
	fsys := vfs.NewMem()
	base := int64(0)
	for i := range count {
		w := newWorld(t, fsys, seed+uint64(i),
			shape{base: base, batches: 20, recordsMax: 30, keys: 300, valueMax: 5, salt: 9})
		base = w.segment.NextOffset()
		w.scan(0, 0)
		all = append(all, w)
	}
	return all
}

func TestDerivedSidecarEqualsModel(t *testing.T) {
	for seed := range seed.Sequence(t, 20) {
		c := clean(t, seed, neighbours(t, seed, 1+int(seed%4))...)
		c.check(c.finish())
	}
}

// TestDerivedSidecarsOfRolledOutput divides one source's records between two output segments. The
// first ordinal of the second segment does not have to be a multiple of 64, the number of bits in a
// word of remap.
func TestDerivedSidecarsOfRolledOutput(t *testing.T) {
	for seed := range seed.Sequence(t, 5) {
		source := neighbours(t, seed, 1)[0]
		reader := source.open()
		for _, split := range []struct{ from, to int }{{0, 7}, {7, 20}} {
			batches := source.batches[split.from:split.to]
			first, end := batches[0].FirstOrdinal, uint32(len(source.records))
			if split.to < len(source.batches) {
				end = source.batches[split.to].FirstOrdinal
			}
			c := &cleaned{world: world{t: t, seed: seed, random: source.random, fsys: source.fsys,
				salt: source.salt}}
			c.derivation = NewDerivation(c.fsys, "/output.spool", batches[0].BaseOffset, c.salt)
			c.sources = []DerivationSource{{Keys: reader, First: first, End: end}}
			c.records = source.records[first:end]
			for _, b := range batches {
				b.Position, b.FirstOrdinal = c.derivation.NextPosition(), b.FirstOrdinal-first
				c.batches = append(c.batches, b)
				c.must(c.derivation.Append(b))
			}
			c.check(c.finish())
		}
	}
}

// TestDerivationRejectsMismatches checks that Finish fails with ErrMismatch if the sources do not
// match the appended batches.
func TestDerivationRejectsMismatches(t *testing.T) {
	for name, change := range map[string]func(c *cleaned){
		"one more removed": func(c *cleaned) {
			removed := c.sources[0].Removed
			done := false
			c.sources[0].Removed = func(ordinal uint32) bool {
				if !done && !removed(ordinal) {
					done = true
					return true
				}
				return removed(ordinal)
			}
		},
		"missing source":    func(c *cleaned) { c.sources = c.sources[:1] },
		"ordinals too high": func(c *cleaned) { c.sources[1].End++ },
		"other salt":        func(c *cleaned) { c.derivation.spool.saltID++ },
	} {
		t.Run(name, func(t *testing.T) {
			c := clean(t, 11, neighbours(t, 11, 2)...)
			change(c)
			if _, err := c.derivation.Finish(t.Context(), c.sources, "/output.keys",
				Options{}); !errors.Is(err, ErrMismatch) {
				t.Errorf("got error %v, want ErrMismatch", err)
			}
			if _, err := c.fsys.Stat("/output.keys"); err == nil {
				t.Error("Finish failed, but the sidecar exists")
			}
			c.must(c.derivation.Close())
		})
	}
}

// TestDerivationReadsNoEntriesOfSupersededSegments checks that Finish does not read the sidecar of
// a source without kept records.
func TestDerivationReadsNoEntriesOfSupersededSegments(t *testing.T) {
	fsys := vfs.NewMem()
	source := newWorld(t, fsys, 11,
		shape{batches: 20, recordsMax: 20, keys: 50, valueMax: 10, plain: true})
	reader := source.scan(0, 0)
	t.Cleanup(func() { _ = reader.Close() })
	read := 0
	reader.OnRead(func(n int) error {
		read += n
		return nil
	})
	derivation := NewDerivation(fsys, "/output.spool", 0, source.salt)
	gone := DerivationSource{Keys: reader, End: uint32(len(source.records)),
		Removed: func(uint32) bool { return true }}
	built, err := derivation.Finish(t.Context(), []DerivationSource{gone}, "/output.keys",
		Options{})
	source.must(err)
	source.must(derivation.Close())
	if built.Records != 0 || read > 0 {
		t.Errorf("%d records, %d bytes of the source read; want none", built.Records, read)
	}
}
