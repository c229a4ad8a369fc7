package clean

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// randomDeadFile returns a DeadFile that a pass could write.
func randomDeadFile(random *rand.Rand) *DeadFile {
	records := uint32(1 + random.IntN(2000))
	d := &DeadFile{
		Binding: Binding{Base: random.Int64N(1 << 40), LogBytes: random.Int64N(1 << 30),
			Identity: random.Uint64(), Records: records},
		ComputedThrough: random.Int64N(1 << 41), Lineage: random.Uint64(),
		PassedAtMs: random.Int64N(1 << 41), DeadBytes: random.Int64N(1 << 30),
		BlockingSinceMs: random.Int64N(2) * 1_000_000, Bitmap: newBitmap(records),
	}
	taken := newBitmap(records)
	for range random.IntN(int(records)) {
		d.Bitmap.set(random.Uint32N(records))
	}
	d.DeadRecords = uint32(d.Bitmap.all())
	for i := range random.IntN(removableSetsMax + 1) {
		members := newBitmap(records)
		for range 1 + random.IntN(20) {
			if ordinal := random.Uint32N(records); !taken.has(ordinal) {
				taken.set(ordinal)
				members.set(ordinal)
			}
		}
		if members.all() > 0 {
			d.Removable = append(d.Removable, newRemovableSet(int64(1000*i)-3000, members.members))
		}
	}
	return d
}

func TestDeadFileRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 300 {
		want := randomDeadFile(random)
		content := want.Encode()
		if int64(len(content)) > DeadFileBytesMax(want.Records) {
			t.Fatalf("%d bytes, DeadFileBytesMax is %d", len(content),
				DeadFileBytesMax(want.Records))
		}
		got, err := DecodeDeadFile(content)
		if err != nil {
			t.Fatal(err)
		}
		for len(want.Bitmap) > 0 && want.Bitmap[len(want.Bitmap)-1] == 0 {
			want.Bitmap = want.Bitmap[:len(want.Bitmap)-1]
		}
		if len(want.Bitmap) == 0 {
			want.Bitmap, got.Bitmap = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded %+v, want %+v", got, want)
		}
	}
}

func TestDecodeRejectsDamagedDeadFile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	content := randomDeadFile(random).Encode()
	for i := range content {
		damaged := slices.Clone(content)
		damaged[i] ^= 1 << random.IntN(8)
		if _, err := DecodeDeadFile(damaged); !errors.Is(err, ErrDeadFile) {
			t.Fatalf("changed byte %d of %d: %v", i, len(content), err)
		}
	}
	for size := range content {
		if _, err := DecodeDeadFile(content[:size]); !errors.Is(err, ErrDeadFile) {
			t.Fatalf("truncated to %d of %d bytes: %v", size, len(content), err)
		}
	}
}

func FuzzDecodeDeadFile(f *testing.F) {
	random := rand.New(rand.NewPCG(2, 0))
	for range 20 {
		content := randomDeadFile(random).Encode()
		f.Add(content[:len(content)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		// Append a valid checksum. Otherwise fuzzing would not reach the code after the check of
		// the checksum.
		content := appendChecksum(slices.Clone(body))
		d, err := DecodeDeadFile(content)
		if err != nil {
			if !errors.Is(err, ErrDeadFile) {
				t.Fatal(err)
			}
			return
		}
		for _, set := range d.Removable {
			last, n := int64(-1), uint32(0)
			for ordinal := range set.All {
				if int64(ordinal) <= last || ordinal >= d.Records {
					t.Fatalf("ordinal %d after %d of %d records", ordinal, last, d.Records)
				}
				last, n = int64(ordinal), n+1
			}
			if n != set.Count {
				t.Fatalf("%d ordinals, Count is %d", n, set.Count)
			}
		}
		if again, err := DecodeDeadFile(d.Encode()); err != nil ||
			!reflect.DeepEqual(again.Removable, d.Removable) {
			t.Fatalf("encoded and decoded %+v, %v; want %+v", again, err, d)
		}
	})
}

func TestExcessRemovableSetsAreMergedUnderTheLaterTime(t *testing.T) {
	var sets []RemovableSet
	for i := range uint32(removableSetsMax + 3) {
		sets = append(sets,
			newRemovableSet(int64(i), func(yield func(uint32) bool) { yield(100 - i) }))
	}
	sets = mergeRemovable(sets)
	if len(sets) != removableSetsMax || sets[0].SinceMs != 3 || sets[0].Count != 4 {
		t.Fatalf("%d sets, the first %+v", len(sets), sets[0])
	}
	if got := slices.Collect(sets[0].All); !slices.Equal(got, []uint32{97, 98, 99, 100}) {
		t.Errorf("ordinals %v", got)
	}
}

func TestMergeIteratorYieldsAllSetsByOrdinal(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 0))
	for range 100 {
		d := randomDeadFile(random)
		since := map[uint32]int64{}
		for _, set := range d.Removable {
			for ordinal := range set.All {
				since[ordinal] = set.SinceMs
			}
		}
		m, from, count := newMergeIterator(d.Removable), uint32(0), 0
		for from < d.Records {
			to := min(d.Records, from+random.Uint32N(100))
			for range m.within(from, to) {
				if m.ordinal < from || m.ordinal >= to || since[m.ordinal] != m.sinceMs {
					t.Fatalf("ordinal %d since %d in [%d, %d), want since %d", m.ordinal, m.sinceMs,
						from, to, since[m.ordinal])
				}
				count++
			}
			from = to
		}
		if count != len(since) {
			t.Fatalf("yielded %d of %d ordinals", count, len(since))
		}
	}
}
