package passlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

var totalsPath = filepath.Join(dir, totalsName)

// end adds a pass over a log that has ended.
func end(l *Log, key Key, ended report.Pass) {
	moment := time.UnixMilli(int64(*ended.Ended * 1000))
	l.Begin("topic", key, ended.Trigger, moment.Add(-time.Second)).End(ended, moment)
}

// randomPass returns the report of a pass that has ended at moment.
func randomPass(random *rand.Rand, moment time.Time) report.Pass {
	results := []string{report.ResultSuccess, report.ResultNothingToDo, report.ResultAborted,
		report.ResultFailed}
	pass := report.Pass{Trigger: report.TriggerMaxLag, Began: float64(moment.Unix() - 1),
		Ended: new(float64(moment.Unix())), Result: results[random.IntN(len(results))],
		ReadBytes: random.Int64N(1 << 40), WrittenBytes: random.Int64N(1 << 40),
		SidecarReadBytes: random.Int64N(9), SidecarWrittenBytes: random.Int64N(9),
		ReclaimedBytes: random.Int64N(1<<20) - 1000, RemovedRecords: random.Int64N(1 << 20)}
	if pass.Result == report.ResultFailed {
		pass.Error = strings.Repeat("é", random.IntN(600))
	}
	return pass
}

// totalsModel computes totals from the list of all passes over a log.
func totalsModel(passes []report.Pass) (t Totals) {
	for i, p := range passes {
		if i == 0 {
			t.Runs = map[string]int64{}
		}
		t.Runs[p.Result]++
		t.ReadBytes += p.ReadBytes
		t.WrittenBytes += p.WrittenBytes
		t.SidecarReadBytes += p.SidecarReadBytes
		t.SidecarWrittenBytes += p.SidecarWrittenBytes
		t.ReclaimedBytes += p.ReclaimedBytes
		t.RemovedRecords += p.RemovedRecords
		if p.Result == report.ResultSuccess || p.Result == report.ResultNothingToDo {
			t.LastSuccess = p.Ended
		}
		if len(p.Error) > errorBytesMax {
			p.Error = p.Error[:errorBytesMax]
		}
		t.LastPass = &p
	}
	return t
}

// TestTotalsMatchPassesAcrossRestarts compares the totals of random passes with a list of all
// passes. Logs are removed, the broker is restarted, some logs are missing after a restart, the
// machine loses unsynced data, and the file is truncated within its last line.
func TestTotalsMatchPassesAcrossRestarts(t *testing.T) {
	for s := range seed.Sequence(t, 10) {
		m := &totalsRun{t: t, Rand: rand.New(rand.NewPCG(s, 0)), fsys: vfs.NewMem(),
			passes: map[Key][]report.Pass{}, states: map[Key][]Totals{}, moment: start,
			logs: 1 + int(s%50)}
		m.open()
		for range 1000 {
			m.step()
		}
		m.open()
		if m.replaced == 0 && m.logs < 10 {
			t.Errorf("seed %d: the file was never replaced", s)
		}
	}
}

// totalsRun is a Log and the passes over its logs.
type totalsRun struct {
	t *testing.T
	*rand.Rand
	fsys     *vfs.Mem
	log      *Log
	logs     int
	moment   time.Time
	passes   map[Key][]report.Pass // passes since the log was created
	states   map[Key][]Totals      // all values that the totals have had
	replaced int
}

func (m *totalsRun) key() Key {
	return Key{TopicID: fmt.Sprintf("%022d", m.IntN(3)), Partition: int32(m.IntN(m.logs))}
}

func (m *totalsRun) step() {
	m.moment = m.moment.Add(time.Minute)
	before := m.log.totalsFile.count
	switch n := m.IntN(100); {
	case n < 90:
		key, pass := m.key(), randomPass(m.Rand, m.moment)
		end(m.log, key, pass)
		m.passes[key] = append(m.passes[key], pass)
		m.states[key] = append(m.states[key], totalsModel(m.passes[key]))
	case n < 95:
		key := m.key()
		m.log.Remove([]Key{key, {TopicID: "unknown"}})
		delete(m.passes, key)
		m.states[key] = append(m.states[key], Totals{})
	case n < 97:
		m.open()
	case n < 98:
		m.tear()
	case n < 99 && m.IntN(5) == 0:
		m.crash()
	}
	if after := m.log.totalsFile.count; after < before {
		m.replaced++
	} else if limit := 2*len(m.log.mu.totals) + totalsSpareLines; after > limit {
		m.t.Fatalf("the file has %d lines, want at most %d", after, limit)
	}
}

// lines returns the number of lines in the file.
func (m *totalsRun) lines() int {
	content, _ := m.fsys.ReadFile(totalsPath)
	return bytes.Count(content, []byte("\n"))
}

// open opens the Log again and checks its totals.
func (m *totalsRun) open() {
	m.t.Helper()
	m.log = open(m.t, m.fsys)
	m.log.opts.Logs = func() map[Key]bool {
		existing := map[Key]bool{}
		for key := range m.passes {
			existing[key] = true
		}
		return existing
	}
	if got, want := m.log.totalsFile.count, m.lines(); got != want {
		m.t.Fatalf("%d lines, want %d", got, want)
	}
	if got, want := len(m.log.mu.totals), len(m.passes); got != want {
		m.t.Fatalf("totals of %d logs, want %d", got, want)
	}
	for key, passes := range m.passes {
		if got, want := m.log.Totals(key), totalsModel(passes); !reflect.DeepEqual(got, want) {
			m.t.Fatalf("%v: got %+v, want %+v", key, got, want)
		}
	}
}

// tear removes a part of the file's last line, like a crash during a write, and opens the Log. One
// log's totals then lack its last pass.
func (m *totalsRun) tear() {
	m.open()
	content, err := m.fsys.ReadFile(totalsPath)
	if err != nil || len(content) == 0 {
		return
	}
	last := content[bytes.LastIndexByte(content[:len(content)-1], '\n')+1:]
	file, err := m.fsys.OpenReadWrite(totalsPath)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := file.Truncate(int64(len(content) - 1 - m.IntN(len(last)))); err != nil {
		m.t.Fatal(err)
	}
	_ = file.Close()
	differing := 0
	m.log = open(m.t, m.fsys)
	for key, passes := range m.passes {
		if !reflect.DeepEqual(m.log.Totals(key), totalsModel(passes)) {
			differing++
		}
	}
	for key := range m.log.mu.totals {
		if m.passes[key] == nil {
			differing++
		}
	}
	if differing != 1 {
		m.t.Fatalf("the totals of %d logs differ after their last line %q", differing, last)
	}
	m.adopt()
}

// crash loses the unsynced data and opens the Log. Each log's totals are then the totals at an
// earlier time.
func (m *totalsRun) crash() {
	m.fsys = m.fsys.CrashClonePartly(m.Uint64())
	m.log = open(m.t, m.fsys)
	for key, got := range m.log.mu.totals {
		if !slices.ContainsFunc(m.states[key],
			func(state Totals) bool { return reflect.DeepEqual(got, state) }) {
			m.t.Fatalf("%v: %+v after a power cut, which it never was", key, got)
		}
	}
	m.adopt()
}

// adopt removes all logs. The next steps then begin with known totals.
func (m *totalsRun) adopt() {
	var all []Key
	for key := range m.log.mu.totals {
		all = append(all, key)
	}
	m.log.Remove(all)
	clear(m.passes)
	m.open()
}

// TestTotalsOfMissingLogsAreDiscarded checks that the totals that remain after a crash between the
// removal of a log and Remove are discarded when the file is replaced.
func TestTotalsOfMissingLogsAreDiscarded(t *testing.T) {
	l := open(t, vfs.NewMem())
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	gone, kept := keyOf("gone"), keyOf("kept")
	end(l, gone, randomPass(random, start))
	l.opts.Logs = func() map[Key]bool { return map[Key]bool{kept: true} }
	for range totalsSpareLines + 10 {
		end(l, kept, randomPass(random, start))
	}
	if got := l.Totals(gone); got.Runs != nil || runs(l.Totals(kept)) != totalsSpareLines+10 {
		t.Errorf("got %+v of a log that does not exist, %+v", got, l.Totals(kept))
	}
}

// TestTotalsAreWrittenAfterFailure checks that totals that could not be written are in the file
// once a later write has succeeded.
func TestTotalsAreWrittenAfterFailure(t *testing.T) {
	fsys := vfs.NewMem()
	l := open(t, fsys)
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	if err := fsys.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	end(l, keyOf("first"), randomPass(random, start))
	want := open(t, fsys).Totals(keyOf("first")) // this also creates the directory again
	if want.Runs != nil {
		t.Fatalf("totals without a directory: %+v", want)
	}
	end(l, keyOf("second"), randomPass(random, start))
	for _, name := range []string{"first", "second"} {
		want = l.Totals(keyOf(name))
		if got := open(t, fsys).Totals(keyOf(name)); runs(got) != 1 ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// TestPassWithoutTopicIDIsSkipped reads a history with a line that has no topic id.
func TestPassWithoutTopicIDIsSkipped(t *testing.T) {
	fsys := vfs.NewMem()
	l := open(t, fsys)
	run(l, "topic", 2, start)
	content, err := fsys.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("\"topicId\":%q,", keyOf("topic").TopicID)
	if !bytes.Contains(content, []byte(id)) {
		t.Fatalf("no topic id in %s", content)
	}
	fsys = vfs.NewMem()
	open(t, fsys) // this also creates the directory
	file, err := fsys.Create(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(bytes.Replace(content, []byte(id), nil, 1), 0); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	l = open(t, fsys)
	if all := list(l); len(all) != 0 || len(l.mu.totals) != 0 {
		t.Errorf("got %+v, totals %v", all, l.mu.totals)
	}
}

// FuzzDecodeTotals checks that no bytes cause a panic, and that decoded totals are unchanged after
// they are written and read again.
func FuzzDecodeTotals(f *testing.F) {
	f.Add([]byte(`{"topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":1,"runs":{"success":1},` +
		`"lastPass":{"result":"success"}}` + "\n" +
		`{"topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":1,"removed":true}` + "\n{"))
	f.Fuzz(func(t *testing.T, content []byte) {
		all, lines, size, damaged := decodeTotals(content)
		if size > len(content) || damaged > lines+1 || len(all) > lines {
			t.Fatalf("%d of %d bytes are %d lines with %d logs, %d damaged", size, len(content),
				lines, len(all), damaged)
		}
		for key, totals := range all {
			line := totalsLine{TopicID: key.TopicID, Partition: key.Partition, Totals: &totals}
			again, _, _, damaged := decodeTotals(line.appendTo(nil))
			if damaged != 0 || !reflect.DeepEqual(again[key], totals) {
				t.Fatalf("got %+v, want %+v", again[key], totals)
			}
		}
	})
}

// BenchmarkOpenTotals measures the start of a broker whose file has the maximum number of lines for
// ten thousand logs.
func BenchmarkOpenTotals(b *testing.B) {
	const logs = 10_000
	fsys := vfs.NewMem()
	open(b, fsys) // this also creates the directory
	random := rand.New(rand.NewPCG(1, 0))
	var content []byte
	for i := range 2*logs + totalsSpareLines {
		sum := Totals{}.with(randomPass(random, start))
		line := totalsLine{TopicID: fmt.Sprintf("%022d", i%logs/12), Partition: int32(i % logs),
			Totals: &sum}
		content = line.appendTo(content)
	}
	if err := vfs.WriteFileAtomic(fsys, totalsPath, content); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		if l := open(b, fsys); len(l.mu.totals) != logs {
			b.Fatalf("totals of %d logs", len(l.mu.totals))
		}
	}
}

// runs returns the number of passes.
func runs(t Totals) (sum int64) {
	for _, n := range t.Runs {
		sum += n
	}
	return sum
}
