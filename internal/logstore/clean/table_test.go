package clean

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
)

func TestSipHash128KnownAnswers(t *testing.T) { // the reference implementation's vectors: key 00..0f, input 00 01 02...
	var key [16]byte
	for i := range key {
		key[i] = byte(i)
	}
	h := newHasher(key)
	for size, want := range map[int]string{
		0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45",
	} {
		input := make([]byte, size)
		for i := range input {
			input[i] = byte(i)
		}
		sum, raw := h.hash(input), make([]byte, 0, 16)
		for _, word := range sum {
			for i := range 8 {
				raw = append(raw, byte(word>>(8*i)))
			}
		}
		if got := hex.EncodeToString(raw); got != want {
			t.Errorf("%d bytes: %s, want %s", size, got, want)
		}
	}
}

func TestHashTellsLengthsAndKeysApart(t *testing.T) {
	a, b := newHasher([16]byte{1}), newHasher([16]byte{2})
	seen := map[keyHash]bool{}
	for size := range 100 {
		seen[a.hash(make([]byte, size))] = true
		seen[b.hash(make([]byte, size))] = true
	}
	if len(seen) != 200 {
		t.Errorf("%d of 200 hashes differ", len(seen))
	}
}

func TestTableAgainstAMap(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	m := &memory{limit: 64 << 20}
	tab, model := &table{memory: m}, map[keyHash]place{}
	for i := range uint32(100_000) {
		hash := keyHash{random.Uint64N(40_000), random.Uint64() &^ (1<<60 - 1)} // long probes, all shards
		at := place{segment: i % 7, ordinal: i}
		before, known, err := tab.put(hash, at)
		want, there := model[hash]
		if err != nil || known != there || before != want {
			t.Fatalf("put %v: before %v %v, want %v %v, %v", hash, before, known, want, there, err)
		}
		model[hash] = at
		absent := keyHash{random.Uint64(), random.Uint64()}
		if _, known := tab.get(absent); known {
			t.Fatal("a key is found that was never put")
		}
	}
	for hash, want := range model {
		if at, known := tab.get(hash); !known || at != want {
			t.Fatalf("get %v: %v %v, want %v", hash, at, known, want)
		}
	}
	held := int64(0)
	for _, sh := range tab.shards {
		held += int64(len(sh.slots)) * slotBytes
	}
	if m.used != held || tab.bytes != held {
		t.Errorf("%d bytes are counted, %d by the table, %d are held", m.used, tab.bytes, held)
	}
	if tab.free(); m.used != 0 {
		t.Errorf("%d bytes are counted after free", m.used)
	}
}

func TestSizesThatAreCountedAreTheSizesInMemory(t *testing.T) {
	if got := unsafe.Sizeof(slot{}); got != slotBytes {
		t.Errorf("a slot takes %d bytes, %d are counted", got, slotBytes)
	}
	if got := unsafe.Sizeof(batchPlan{}); got != batchPlanBytes {
		t.Errorf("a batchPlan takes %d bytes, %d are counted", got, batchPlanBytes)
	}
}

func TestBitmapAgainstAMap(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	m := &memory{limit: 1 << 20}
	var b bitmap
	model := map[uint32]bool{}
	for range 500 {
		i := random.Uint32N(3000)
		if err := b.add(i, m); err != nil {
			t.Fatal(err)
		}
		model[i] = true
		from := random.Uint32N(3300)
		to := from + random.Uint32N(400)
		want := 0
		for j := from; j < to; j++ {
			if b.has(j) != model[j] {
				t.Fatalf("has(%d) is %v", j, b.has(j))
			}
			if model[j] {
				want++
			}
		}
		if got := b.count(from, to); got != want {
			t.Fatalf("count(%d, %d) is %d, want %d", from, to, got, want)
		}
	}
	if m.used != int64(8*cap(b)) {
		t.Errorf("%d bytes are counted of %d", m.used, 8*cap(b))
	}
}

func TestMemoryBeyondTheLimitIsRefusedAndNotCounted(t *testing.T) {
	m := &memory{limit: 100}
	if err := m.reserve(60); err != nil {
		t.Fatal(err)
	}
	if err := m.reserve(41); !errors.Is(err, ErrOverBudget) || m.used != 60 {
		t.Errorf("%v, %d used", err, m.used)
	}
	m.touch(80)
	m.release(60)
	if err := m.reserve(100); err != nil || m.peak != 140 {
		t.Errorf("%v, peak %d", err, m.peak)
	}
}
