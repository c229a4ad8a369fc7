package reachability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// live returns brokers from texts. For example, "0>1,2" is broker 0, which cannot reach 1 and 2,
// and "0*" is isolated. All brokers have epoch 1.
func live(texts ...string) (brokers []Broker) {
	for _, text := range texts {
		id, unreached, _ := strings.Cut(text, ">")
		b := Broker{}
		id, b.Isolated = strings.CutSuffix(id, "*")
		number, _ := strconv.Atoi(id)
		b.Peer = Peer{int32(number), 1}
		for peer := range strings.SplitSeq(unreached, ",") {
			b.Report = append(b.Report, ParseReport(peer+":1")...)
		}
		brokers = append(brokers, b)
	}
	return brokers
}

func TestIsolatedBrokers(t *testing.T) {
	for name, test := range map[string]struct {
		brokers string
		want    string
	}{
		"all connected":                         {"0 1 2", ""},
		"one cut off":                           {"0>1,2 1>0 2>0", "0:1"},
		"one cut off, and only it reports":      {"0>1,2 1 2", "0:1"},
		"one cut off, and only others report":   {"0 1>0 2>0", "0:1"},
		"one connection":                        {"0>1 1>0 2", ""},
		"one connection, one direction":         {"0>1 1 2", ""},
		"all connections of three":              {"0>1,2 1>0,2 2>0,1", ""},
		"two brokers":                           {"0>1 1>0", ""},
		"two brokers, one direction":            {"0>1 1", ""},
		"two halves":                            {"0>2,3 1>2,3 2>0,1 3>0,1", ""},
		"two halves of six":                     {"0>3,4,5 1>3,4,5 2>3,4,5 3 4 5", ""},
		"two of five":                           {"0>2,3,4 1>2,3,4 2>0,1 3>0,1 4>0,1", "0:1,1:1"},
		"a zone of six":                         {"0>2,3,4,5 1>2,3,4,5 2 3 4 5", "0:1,1:1"},
		"a former epoch":                        {"0 1>7 2>7", ""},
		"reports about a broker that is absent": {"0>9 1>9 2>9", ""},
		"another broker while one is isolated":  {"0* 1>2,0 2>1,0", "0:1"},
		"an isolated broker stays":              {"0*>1,2 1 2", "0:1"},
		"equally bad: the isolated one stays":   {"0*>1,2 1>0,3 2>0 3>1", "0:1"},
	} {
		var s Isolation
		if got := Report(s.Decide(live(strings.Fields(test.brokers)...), noon)); got.String() !=
			test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestIsolatedBrokerStaysUntilItIsHealedForAWhile(t *testing.T) {
	var s Isolation
	for _, step := range []struct {
		after   time.Duration
		brokers string
		want    string
	}{
		{0, "0* 1 2", "0:1"},
		{HealedAfter - time.Second, "0* 1 2", "0:1"},
		{HealedAfter, "0*>1,2 1 2", "0:1"}, // cut off again
		{HealedAfter + time.Second, "0* 1 2", "0:1"},
		{2 * HealedAfter, "0* 1 2", "0:1"},
		{2*HealedAfter + time.Second, "0* 1 2", ""},
		{2*HealedAfter + 2*time.Second, "0 1 2", ""},
	} {
		for range 2 {
			got := Report(s.Decide(live(strings.Fields(step.brokers)...), noon.Add(step.after)))
			if got.String() != step.want {
				t.Errorf("after %v: got %q, want %q", step.after, got, step.want)
			}
		}
	}
}

// TestIsolationInvariants applies random reports to random clusters, and compares each decision
// with the package's invariants.
func TestIsolationInvariants(t *testing.T) {
	for seed := range seed.Sequence(t, 300) {
		random := rand.New(rand.NewPCG(seed, 0))
		var s Isolation
		isolated := map[int32]bool{}
		count := 1 + random.IntN(7)
		for step := range 40 {
			var brokers []Broker
			density := random.Float64()
			for id := range int32(count) {
				if random.IntN(12) == 0 {
					continue // the broker is not alive
				}
				b := Broker{Peer: Peer{id, 1}, Isolated: isolated[id]}
				for other := range int32(count) {
					if other != id && random.Float64() < density*density {
						b.Report = append(b.Report, Peer{other, int64(1 + random.IntN(8)/7)})
					}
				}
				brokers = append(brokers, b)
			}
			decided := s.Decide(brokers, noon.Add(time.Duration(step)*3*time.Second))
			check(t, fmt.Sprintf("seed %d, step %d: %+v", seed, step, brokers), brokers, decided)
			isolated = map[int32]bool{}
			for _, p := range decided {
				isolated[p.Broker] = true
			}
		}
	}
}

// check compares newly isolated brokers with the reports about them.
func check(t *testing.T, name string, brokers []Broker, decided []Peer) {
	t.Helper()
	before := 0
	for _, b := range brokers {
		if b.Isolated {
			before++
		}
	}
	if 2*(len(brokers)-len(decided)) <= len(brokers) && len(decided) > before {
		t.Fatalf("%s: %v are isolated, at most half of the brokers remain", name, decided)
	}
	for _, b := range brokers {
		if b.Isolated || !slices.Contains(decided, b.Peer) {
			continue
		}
		broken, others := 0, 0
		for _, other := range brokers {
			if other.Peer == b.Peer {
				continue
			}
			others++
			if other.Report.Contains(b.Peer) || b.Report.Contains(other.Peer) {
				broken++
			}
		}
		// The broker may still reach all other brokers that are cut off, which are fewer than half of the
		// live ones.
		if broken == 0 || 2*broken <= others-len(brokers)/2 {
			t.Fatalf("%s: broker %d is isolated, but lost only %d of %d", name, b.Broker, broken,
				others)
		}
	}
}

func TestReportText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "0:5": "0:5", "2:7,0:5,2:7": "0:5,2:7", "x:1,1,3:-1,-2:1,4:4": "4:4",
		"9999999999:1": "",
	} {
		if got := ParseReport(text).String(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add("0:5,2:7")
	f.Fuzz(func(t *testing.T, text string) {
		report := ParseReport(text)
		if again := ParseReport(report.String()); !slices.Equal(report, again) {
			t.Fatalf("%q: got %v, then %v", text, report, again)
		}
	})
}
