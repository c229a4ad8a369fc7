package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// zendesk returns the input of the example in docs/operate/sizing.md.
func zendesk() Input {
	return Input{
		Keys: 1.6e9, RecordBytes: 5000, UpdateRate: 300, Partitions: 8, Replicas: 3, Brokers: 9,
		CompressionRatio: 4, BatchRecords: 12,
		HotShare: 1, DirtyRatio: 0.5, IORate: 200e6, RepublishRate: 43_000,
		KafkaBufferBytes: 128 << 20,
	}
}

func mustMake(t *testing.T, in Input) Plan {
	t.Helper()
	p, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestZendesk compares the plan with the numbers in the case study (docs/internals/zendesk.md).
func TestZendesk(t *testing.T) {
	p := mustMake(t, zendesk())
	near(t, "days until the ratio is reached", p.PassEverySeconds/daySeconds, 61, 0.02)
	near(t, "hours of the republication", p.Republication.WriteSeconds/3600, 10.08, 0.03)
	near(t, "TB of live records", p.Partition.LiveBytes*8/tera, 2.0, 1e-9)
	near(t, "size when due / live size at a ratio of 0.5",
		p.Partition.DueBytes/p.Partition.LiveBytes,
		2, 1e-9)
	// At a dirty ratio of 50 %, the cleaner rewrites as many records as Kafka's cleaner with an
	// unlimited buffer.
	near(t, "write amplification", p.WriteAmplification, 1, 1e-9)
	near(t, "Kafka's keys per pass", p.Kafka.KeysPerPass, 5_033_164, 1e-6)

	in := zendesk()
	// The case study says "we could halve the reserve". With half the ratio, the reserve becomes a
	// third of the live size.
	in.DirtyRatio = 0.25
	near(t, "size when due / live size at 0.25",
		mustMake(t, in).Partition.DueBytes/p.Partition.LiveBytes, 4.0/3, 1e-9)
	in.DirtyRatio = 1.0 / 3
	// about (1-r)/r = 2 rewritten records per appended record
	near(t, "write amplification at 33 %", mustMake(t, in).WriteAmplification, 2.03, 0.02)
	if p.Republication.Pass.LogReadBytes != 0 || p.Republication.Pass.LogWrittenBytes != 0 {
		t.Errorf("pass after a republication: got %+v, want no log I/O", p.Republication.Pass)
	}
}

// TestGolden compares the printed plans with golden files; docs/operate/sizing.md contains one of
// them.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Input
		json bool
	}{
		{"zendesk.txt", zendesk(), false},
		{"zendesk.json", zendesk(), true},
		{"small.txt", Input{Keys: 10_000, RecordBytes: 80, UpdateRate: 2, DirtyRatio: 0.5,
			Tombstones: true}, false},
		{"no-updates.txt", Input{Keys: 50e6, RecordBytes: 1000, HotShare: 0.1, DirtyRatio: 0.1,
			GarbageShare: 0.2, Partitions: 3}, false},
	} {
		var out bytes.Buffer
		if err := mustMake(t, c.in).Print(&out, c.json); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "NI") &&
			(strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf")) {
			t.Errorf("%s: got NaN or Inf in the output: %s", c.name, out.String())
		}
		name := "testdata/" + c.name
		if *update {
			if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if out.String() != string(want) {
			t.Errorf("%s differs from the output (to rewrite it, run go test -update):\n%s", c.name, out.String())
		}
	}
}

// TestMonotonic checks for pairs of an input and a result that the result never decreases, or never
// increases, as the input grows.
func TestMonotonic(t *testing.T) {
	needed := func(p Plan) float64 { return p.Topic.NeededBytes }
	daily := func(p Plan) float64 { return p.CleanerBytesDay }
	for _, c := range []struct {
		name    string
		set     func(*Input, float64)
		measure func(Plan) float64
		values  []float64
		falls   bool
	}{
		{"disk by keys", func(in *Input, x float64) { in.Keys = x }, needed,
			[]float64{1, 1e3, 1e6, 1e9, 1e12}, false},
		{"disk by record size", func(in *Input, x float64) { in.RecordBytes = x }, needed,
			[]float64{10, 1e3, 1e5}, false},
		{"disk by dirty ratio", func(in *Input, x float64) { in.DirtyRatio = x }, needed,
			[]float64{0, 0.1, 0.5, 0.9, 0.99}, false},
		{"disk by garbage", func(in *Input, x float64) { in.GarbageShare = x }, needed,
			[]float64{0, 0.1, 0.5, 0.9}, false},
		{"disk by compression", func(in *Input, x float64) { in.CompressionRatio = x }, needed,
			[]float64{1, 2, 8}, true},
		{"I/O by update rate", func(in *Input, x float64) { in.UpdateRate = x }, daily,
			[]float64{0, 1, 100, 1e4}, false},
		{"I/O by dirty ratio", func(in *Input, x float64) { in.DirtyRatio = x }, daily,
			[]float64{0.05, 0.1, 0.5, 0.9}, true},
		{"I/O by garbage", func(in *Input, x float64) { in.GarbageShare = x },
			func(p Plan) float64 { return p.WriteAmplification }, []float64{0, 0.05, 0.2, 0.5, 0.8},
			true},
		{"I/O by hot keys", func(in *Input, x float64) { in.HotShare = x }, daily,
			[]float64{0.01, 0.1, 0.5, 1}, false},
		{"slices by memory", func(in *Input, x float64) { in.MemoryBytes = x },
			func(p Plan) float64 { return p.Memory.Slices }, []float64{1 << 20, 1 << 27, 1 << 33},
			true},
		{"windows by memory", func(in *Input, x float64) { in.MemoryBytes = x },
			func(p Plan) float64 { return p.Memory.Windows }, []float64{1 << 20, 1 << 27, 1 << 33},
			true},
	} {
		before := math.NaN()
		for _, x := range c.values {
			in := zendesk()
			c.set(&in, x)
			now := c.measure(mustMake(t, in))
			if worse := now < before*(1-1e-9); worse && !c.falls || now > before*(1+1e-9) &&
				c.falls {
				t.Errorf("%s: got %g at input %g, but %g at the previous, smaller input", c.name, now, x, before)
			}
			before = now
		}
	}
}

// TestInvariants checks invariants of the plan for random valid inputs.
func TestInvariants(t *testing.T) {
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 2))
	power := func(low, high float64) float64 { return low * math.Pow(high/low, random.Float64()) }
	for range 2000 {
		in := Input{
			Keys: power(1, 1e13), RecordBytes: power(1, 1e8), UpdateRate: power(1e-3, 1e8),
			Partitions: 1 + random.IntN(2000),
			Replicas:   1 + random.IntN(5), Brokers: 5 + random.IntN(100),
			CompressionRatio: power(0.5, 100), BatchRecords: power(1, 1e4),
			HotShare: power(1e-3, 1), DirtyRatio: 0.99 * random.Float64(),
			GarbageShare: 0.99 * random.Float64() * float64(random.IntN(2)),
			SegmentBytes: power(1<<10, 1<<31-1), MemoryBytes: power(1<<20, 1<<40),
			Workers: random.IntN(9), IORate: power(1, 1e10),
			KafkaBufferBytes: power(1<<20, 1<<31), Tombstones: random.IntN(2) == 0,
		}
		p := mustMake(t, in)
		for name, ok := range map[string]bool{
			"live <= after <= due <= needed": p.Partition.LiveBytes <= p.Partition.AfterBytes &&
				p.Partition.AfterBytes <= p.Partition.DueBytes &&
				p.Partition.DueBytes <= p.Partition.NeededBytes,
			"a pass reclaims what was appended": p.Pass.FreedBytes > 0 &&
				p.Pass.FreedBytes <= p.Partition.DueBytes,
			"a pass writes at most the live records": p.Pass.LogWrittenBytes <= p.Partition.LiveBytes*(1+1e-9),
			"a pass writes at most what it reads":    p.Pass.LogWrittenBytes <= p.Pass.LogReadBytes*(1+1e-6),
			"at least one window, one slice": p.Memory.Windows >= 1 &&
				p.Memory.Slices >= 1,
			"Kafka has at least one pass": p.Kafka.Steady.Passes >= 1 &&
				p.Kafka.Republication.Passes >= 1,
			"I/O and its time are positive": p.CleanerBytesDay > 0 &&
				p.PassSeconds > 0 && p.BusyShare > 0,
			"a note reports a busy cleaner": p.BusyShare <= 1 ||
				strings.Contains(strings.Join(p.Notes, "\n"), "falls behind"),
			"a note reports a topic smaller than a segment": p.Partition.LiveBytes >= in.SegmentBytes ||
				strings.Contains(strings.Join(p.Notes, "\n"), "active segment"),
		} {
			if !ok {
				t.Fatalf("seed %d: violated: %s\n%+v\n%+v", seed, name, in, p)
			}
		}
		if _, err := json.Marshal(p); err != nil { // JSON encoding fails for NaN and Inf
			t.Fatalf("seed %d: %v\n%+v", seed, err, in)
		}
	}
}

func TestValidateReturnsAllFaults(t *testing.T) {
	_, err := Make(Input{DirtyRatio: 1, GarbageShare: -1, HotShare: 2, Replicas: 3, Brokers: 2,
		SegmentBytes: 1, MemoryBytes: 5, UpdateRate: -1})
	if err == nil {
		t.Fatal("invalid input: got no error")
	}
	for _, want := range []string{
		"keys 0: must be", "record size 0: must be", "update rate -1",
		"brokers 2: a broker holds at most one of the 3 replicas", "hot keys 200 %",
		"dirty percent 100: must be 0 to 99", "garbage percent -100",
		"segment size 1: must be 1Ki to 2Gi-1", "memory 5: must be at least 1Mi",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not contain %q", err, want)
		}
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		size(0): "0 B", size(999): "999 B", size(1000): "0.98 KiB", size(1 << 30): "1 GiB",
		size(1.25e12): "1.14 TiB",
		count(1245):   "1245", count(1.6e9): "1.6 billion", count(0.5): "0.5", span(90): "1.5 min",
		span(3600 * 30): "30 h", span(5.33e6): "61.7 days",
		span(0.25): "0.25 s",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
