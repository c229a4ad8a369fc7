package cleaner

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

var (
	historyTime = flag.Duration("history.time", 0,
		"start no history after this time; 0: no limit")
	historyRuns = flag.Int("history.runs", 30, "number of random histories")
)

// historyScript is a file with a scenario to run for debugging. For example, a wait without
// "quietly" prints more.
var historyScript = flag.String("history.script", "", "run this file and print its output")

func TestHistoryScript(t *testing.T) {
	if *historyScript == "" {
		t.Skip("no -history.script")
	}
	content, err := os.ReadFile(*historyScript)
	if err != nil {
		t.Fatal(err)
	}
	output, err := runScript(t, strings.Split(strings.TrimSpace(string(content)), "\n"))
	t.Logf("%s%v", output, err)
}

const historySteps = 70

// TestHistoriesAgainstLedger runs random histories of a compacted partition with a running cleaner,
// and compares the log with a list of all records. A history contains batches of all codecs,
// tombstones, transactions, truncations, DeleteRecords, changed settings, graceful restarts and
// power cuts. A failing history is shortened and printed as a script, which can be added to
// testdata/scenarios. It covers I1 to I4, I9 to I18, I20 to I29, I35, I43, I44, F1, F4.
func TestHistoriesAgainstLedger(t *testing.T) {
	began, runs := time.Now(), 0
	for seed := range seed.Sequence(t, *historyRuns) {
		if *historyTime > 0 && time.Since(began) > *historyTime {
			break
		}
		runs++
		script := history(seed)
		_, err := runScript(t, slices.Concat(script, settle))
		if err == nil {
			continue
		}
		short := shrink(script, func(script []string) bool {
			_, err := runScript(t, slices.Concat(script, settle))
			return err != nil
		})
		short = append(short, settle...)
		_, why := runScript(t, short)
		t.Fatalf("seed %d: %v\nshortened script, which fails with %v:\n\n%s", seed, err, why,
			strings.Join(short, "\n"))
	}
	t.Logf("%d histories", runs)
}

// shrink returns a part of the script that still fails. It removes blocks of lines, and then single
// lines, as long as the remaining script still fails.
func shrink(script []string, fails func([]string) bool) []string {
	tries := 0
	for size := len(script) / 2; size > 0; {
		shorter := false
		for index := 0; index+size <= len(script) && tries < 2000; {
			tries++
			if less := slices.Delete(slices.Clone(script), index, index+size); fails(less) {
				script, shorter = less, true
			} else {
				index += size
			}
		}
		if !shorter || size > len(script) {
			size /= 2
		}
	}
	return script
}

func TestShrinkKeepsFailingLines(t *testing.T) {
	script := strings.Fields("a b c d e f g h i j k l m")
	got := shrink(script, func(s []string) bool {
		return slices.Contains(s, "c") &&
			slices.Contains(s, "l")
	})
	if !slices.Equal(got, []string{"c", "l"}) {
		t.Errorf("%v", got)
	}
}

// TestLedgerDetectsFaults checks that the ledger reports every kind of difference between a log and
// the appended records.
func TestLedgerDetectsFaults(t *testing.T) {
	for name, change := range map[string]func(l *ledger){
		"missing record": func(l *ledger) {
			l.append(ledgerBatch{base: l.end,
				records: l.batches[0].records})
		},
		"record that was not appended": func(l *ledger) { l.batches = l.batches[1:] },
		"other value": func(l *ledger) {
			l.batches[0].records[0].Value = []byte(
				"other")
		},
		"other timestamp": func(l *ledger) { l.batches[0].records[0].Timestamp++ },
		"other header": func(
			l *ledger) {
			l.batches[0].records[0].Headers[0].Value = nil
		},
	} {
		commands["change"] = func(s *scenario, _ []string) { change(&s.ledger) }
		if _, err := runScript(t,
			[]string{"put a=1 b=2", "put c=3", "roll", "change"}); err == nil {
			t.Errorf("%s is not detected", name)
		}
		delete(commands, "change")
	}
}

// history generates a random script. The script stays valid if lines are removed from it.
func history(seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	h := &historyGenerator{Rand: random, keys: 1 + random.IntN(30)}
	h.add("config segment=%d retention=%ds", 2000+random.IntN(4000), random.IntN(200))
	if random.IntN(3) == 0 {
		h.add("memory %d", 1+random.IntN(3000))
	}
	for range historySteps {
		h.step()
	}
	return h.script
}

// historyGenerator generates the lines of a history.
type historyGenerator struct {
	*rand.Rand
	script []string
	keys   int
}

func (h *historyGenerator) add(format string, args ...any) {
	h.script = append(h.script, fmt.Sprintf(format, args...))
}

func (h *historyGenerator) step() {
	switch n := h.IntN(100); {
	case n < 50:
		h.put()
	case n < 58:
		h.end()
	case n < 68:
		h.add("roll")
	case n < 84:
		h.add("wait %ds quietly", 1+h.IntN(90))
	case n < 86:
		h.add("truncate -%d", 1+h.IntN(15))
	case n < 88:
		h.add("delete-before -%d", h.IntN(60))
	case n < 94:
		h.config()
	case n < 96:
		h.add("restart")
	case n < 97:
		h.add("kill")
	case n < 98:
		h.add("lead")
	default:
		h.add("read")
	}
}

// put adds a line that appends a batch with a random codec and producer.
func (h *historyGenerator) put() {
	words := []string{"put"}
	if codec := []string{"", "-gzip", "-snappy", "-lz4", "-zstd"}[h.IntN(5)]; codec != "" {
		words = append(words, codec)
	}
	if producer := int64(h.IntN(5)) - 1; producer >= 0 {
		words = append(words, fmt.Sprintf("-producer=%d", producer))
		if h.IntN(3) == 0 {
			words = append(words, "-txn")
		}
	}
	if h.IntN(40) == 0 {
		words = append(words, fmt.Sprintf("-time=%d", []int64{-1, 0, 4_100_000_000_000}[h.IntN(3)]))
	}
	for range 1 + h.IntN(1+h.IntN(12)) {
		key := fmt.Sprintf("k%d", h.IntN(h.keys))
		switch n := h.IntN(20); {
		case n == 0:
			words = append(words, "=unkeyed")
		case n < 5:
			words = append(words, key)
		default:
			words = append(words,
				fmt.Sprintf("%s=%d%s", key, h.IntN(1000), strings.Repeat("x", h.IntN(60))))
		}
	}
	h.add("%s", strings.Join(words, " "))
}

// end adds a line that commits or aborts a producer's transaction, even if none is open.
func (h *historyGenerator) end() {
	producer := int64(h.IntN(4))
	h.add("%s %d", []string{"commit", "abort"}[h.IntN(2)], producer)
}

func (h *historyGenerator) config() {
	h.add("config %s", []func() string{
		func() string { return fmt.Sprintf("segment=%d", 2000+h.IntN(4000)) },
		func() string { return fmt.Sprintf("retention=%ds", h.IntN(200)) },
		func() string { return fmt.Sprintf("dirty=%d", h.IntN(100)) },
		func() string { return fmt.Sprintf("garbage=%d", h.IntN(80)) },
		func() string { return fmt.Sprintf("minlag=%ds", h.IntN(100)) },
		func() string {
			return []string{"maxlag=unlimited", "maxlag=30s",
				"maxlag=200s"}[h.IntN(3)]
		},
		func() string { return []string{"age=168h", "age=20s"}[h.IntN(2)] },
		func() string {
			return []string{"policy=compact", "policy=delete", "policy=both",
				"policy=both bytes=3000"}[h.IntN(4)]
		},
		func() string {
			return "codec=" + []string{"producer", "none", "gzip", "snappy", "lz4",
				"zstd"}[h.IntN(6)]
		},
		func() string { return "clean=" + []string{"off", "zstd", "gzip", "lz4"}[h.IntN(4)] },
	}[h.IntN(10)]())
}

// settle contains the last lines of each history. They end all transactions and wait for all
// retentions, which brings the log into its final state.
var settle = []string{
	"commit 0", "abort 1", "commit 2", "abort 3",
	"config policy=compact dirty=0 garbage=0 minlag=0s maxlag=unlimited retention=30s bytes=unlimited age=168h",
	"put end=1", "roll", "put end=2",
	"wait 100s quietly", "wait 100s quietly", "wait 100s quietly", "wait 100s quietly",
	"read", "settled",
}
