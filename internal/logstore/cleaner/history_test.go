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
		"begin no new history after this time; 0: whenever")
	historyRuns = flag.Int("history.runs", 30, "how many random histories to play")
)

// historyScript is for looking into a failure: its waits may be told to speak.
var historyScript = flag.String("history.script", "", "play this file, and print what it prints")

func TestHistoryScript(t *testing.T) {
	if *historyScript == "" {
		t.Skip("no -history.script")
	}
	content, err := os.ReadFile(*historyScript)
	if err != nil {
		t.Fatal(err)
	}
	output, err := play(t, strings.Split(strings.TrimSpace(string(content)), "\n"))
	t.Logf("%s%v", output, err)
}

const historySteps = 70

// Random histories of a compacted partition: produce in all codecs, tombstones, transactions,
// truncations, deleted records, settings that change, restarts in order and by power cuts, with a
// real cleaner at work, against a list that keeps everything. A history that fails is made shorter
// as long as it fails, and printed: as a script that can be put into testdata/clean as it is. I1 to
// I4, I9 to I18, I20 to I29, I35, I43, I44, F1, F4
func TestHistoriesAgainstTheLedger(t *testing.T) {
	began, runs := time.Now(), 0
	for seed := range seed.Sequence(t, *historyRuns) {
		if *historyTime > 0 && time.Since(began) > *historyTime {
			break
		}
		runs++
		script := history(seed)
		_, err := play(t, slices.Concat(script, settle))
		if err == nil {
			continue
		}
		short := shrink(script,
			func(script []string) bool {
				_,
					err := play(t, slices.Concat(script, settle))
				return err != nil
			})
		short = append(short, settle...)
		_, why := play(t, short)
		t.Fatalf("seed %d: %v\nmade shorter, %v:\n\n%s", seed, err, why, strings.Join(short, "\n"))
	}
	t.Logf("%d histories", runs)
}

// shrink returns a part of the script that fails still: without any run of lines, and then any
// line, that it fails without.
func shrink(script []string, fails func([]string) bool) []string {
	tries := 0
	for size := len(script) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(script) && tries < 2000; {
			tries++
			if less := slices.Delete(slices.Clone(script), at, at+size); fails(less) {
				script, shorter = less, true
			} else {
				at += size
			}
		}
		if !shorter || size > len(script) {
			size /= 2
		}
	}
	return script
}

func TestShrinkLeavesWhatFails(t *testing.T) {
	script := strings.Fields("a b c d e f g h i j k l m")
	got := shrink(script, func(s []string) bool {
		return slices.Contains(s, "c") &&
			slices.Contains(s, "l")
	})
	if !slices.Equal(got, []string{"c", "l"}) {
		t.Errorf("%v", got)
	}
}

// A ledger that finds no fault is worth nothing: it must see each of these.
func TestLedgerFindsFaults(t *testing.T) {
	for name, spoil := range map[string]func(l *ledger){
		"a record that is gone": func(l *ledger) {
			l.append(ledgerBatch{base: l.end,
				records: l.batches[0].records})
		},
		"a record that nobody appended": func(l *ledger) { l.batches = l.batches[1:] },
		"another value":                 func(l *ledger) { l.batches[0].records[0].Value = []byte("other") },
		"another timestamp":             func(l *ledger) { l.batches[0].records[0].Timestamp++ },
		"another header":                func(l *ledger) { l.batches[0].records[0].Headers[0].Value = nil },
	} {
		stageCommands["spoil"] = func(s *stage, _ []string) { spoil(&s.ledger) }
		if _, err := play(t, []string{"put a=1 b=2", "put c=3", "roll", "spoil"}); err == nil {
			t.Errorf("%s is not found", name)
		}
		delete(stageCommands, "spoil")
	}
}

// history makes a script. Whatever of it is left out, the rest is a script, too.
func history(seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	h := &historian{Rand: random, keys: 1 + random.IntN(30)}
	h.say("config segment=%d retention=%ds", 2000+random.IntN(4000), random.IntN(200))
	if random.IntN(3) == 0 {
		h.say("memory %d", 1+random.IntN(3000))
	}
	for range historySteps {
		h.step()
	}
	return h.script
}

// historian makes up a history.
type historian struct {
	*rand.Rand
	script []string
	keys   int
}

func (h *historian) say(format string, args ...any) {
	h.script = append(h.script, fmt.Sprintf(format, args...))
}

func (h *historian) step() {
	switch n := h.IntN(100); {
	case n < 50:
		h.put()
	case n < 58:
		h.end()
	case n < 68:
		h.say("roll")
	case n < 84:
		h.say("wait %ds quietly", 1+h.IntN(90))
	case n < 86:
		h.say("truncate -%d", 1+h.IntN(15))
	case n < 88:
		h.say("delete-before -%d", h.IntN(60))
	case n < 94:
		h.config()
	case n < 96:
		h.say("restart")
	case n < 97:
		h.say("kill")
	case n < 98:
		h.say("lead")
	default:
		h.say("read")
	}
}

// put appends a batch in any codec, by any producer.
func (h *historian) put() {
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
	h.say("%s", strings.Join(words, " "))
}

// end ends one of the open transactions, or none.
func (h *historian) end() {
	producer := int64(h.IntN(4))
	h.say("%s %d", []string{"commit", "abort"}[h.IntN(2)], producer)
}

func (h *historian) config() {
	h.say("config %s", []func() string{
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

// settle ends a history: all transactions, and the waiting of all tombstones.
var settle = []string{
	"commit 0", "abort 1", "commit 2", "abort 3",
	"config policy=compact dirty=0 garbage=0 minlag=0s maxlag=unlimited retention=30s bytes=unlimited age=168h",
	"put end=1", "roll", "put end=2",
	"wait 100s quietly", "wait 100s quietly", "wait 100s quietly", "wait 100s quietly",
	"read", "settled",
}
