package cleaner

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// commands maps the first word of a script line to the function that runs the line.
var commands = map[string]func(s *scenario, args []string){
	"config":        (*scenario).config,
	"put":           (*scenario).put,
	"fill":          (*scenario).fill,
	"commit":        func(s *scenario, args []string) { s.endTxn(args, true) },
	"abort":         func(s *scenario, args []string) { s.endTxn(args, false) },
	"roll":          func(s *scenario, _ []string) { s.roll() },
	"wait":          (*scenario).wait,
	"truncate":      (*scenario).truncate,
	"delete-before": (*scenario).deleteBefore,
	"restart":       func(s *scenario, _ []string) { s.restart() },
	"kill":          func(s *scenario, _ []string) { s.kill() },
	"lead":          func(s *scenario, _ []string) { s.lead() },
	"memory":        (*scenario).memory,
	"log":           func(s *scenario, _ []string) { s.print() },
	"paragraph":     func(s *scenario, _ []string) { s.out.WriteString(paragraphEnd) },
	"counts":        func(s *scenario, _ []string) { s.counts() },
	"read":          func(s *scenario, _ []string) { s.ledger.checkReads(s) },
	"settled":       func(s *scenario, _ []string) { s.ledger.checkSettled(s) },
}

// config changes topic settings; each argument is name=value.
func (s *scenario) config(args []string) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		set, known := configSettings[name]
		if !known {
			fail("unknown setting: %s", name)
		}
		must(set(&s.settings, value), name)
	}
	s.log.Configure(s.settings, true)
}

var configSettings = map[string]func(to *topicconfig.Settings, value string) error{
	"segment": func(to *topicconfig.Settings,
		v string) error {
		return scan(v, &to.SegmentBytes)
	},
	"dirty": func(to *topicconfig.Settings,
		v string) error {
		return scan(v, &to.MinDirtyPercent)
	},
	"garbage": func(to *topicconfig.Settings,
		v string) error {
		return scan(v, &to.MaxGarbagePercent)
	},
	"message": func(to *topicconfig.Settings,
		v string) error {
		return scan(v, &to.MessageBytesMax)
	},
	"bytes": func(to *topicconfig.Settings,
		v string) error {
		return scan(v, &to.RetentionBytes)
	},
	"age": func(to *topicconfig.Settings,
		v string) error {
		return duration(v, &to.SegmentAge)
	},
	"retention": func(to *topicconfig.Settings,
		v string) error {
		return duration(v, &to.TombstoneRetention)
	},
	"minlag": func(to *topicconfig.Settings, v string) error { return duration(v, &to.MinLag) },
	"maxlag": func(to *topicconfig.Settings, v string) error { return duration(v, &to.MaxLag) },
	"policy": func(to *topicconfig.Settings, v string) error {
		to.Compact, to.Delete = v != "delete", v != "compact"
		return nil
	},
	"codec": func(to *topicconfig.Settings, v string) (err error) {
		if to.KeepCodec = v == "producer"; !to.KeepCodec {
			to.Codec, err = compress.ParseCodec(v)
		}
		return err
	},
	"clean": func(to *topicconfig.Settings, v string) (err error) {
		if v == "off" {
			to.CleanCodec = topicconfig.CleanCodec{}
			return nil
		}
		to.CleanCodec.Set, to.CleanCodec.Level = true, compress.LevelDefault
		to.CleanCodec.Codec, err = compress.ParseCodec(v)
		return err
	},
}

func scan(text string, to any) error {
	if text == "unlimited" {
		text = strconv.Itoa(topicconfig.Unlimited)
	}
	_, err := fmt.Sscan(text, to)
	return err
}

func duration(text string, to *time.Duration) (err error) {
	if text == "unlimited" {
		*to = topicconfig.Unlimited
		return nil
	}
	*to, err = time.ParseDuration(text)
	return err
}

// put appends one batch. Each argument is a record: "key=value", or "key" for a tombstone, or
// "=value" for a record without a key. value*n repeats the value n times. Options precede the
// records: -zstd or another codec, -producer=5, -txn, -time=ms, -at=offset. With -time and -at the
// batch is appended as on a follower.
func (s *scenario) put(args []string) {
	b := ledgerBatch{producer: -1, base: s.ledger.end}
	codec, ms := compress.None, time.Now().UnixMilli()
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, _ := strings.Cut(args[0][1:], "=")
		var err error
		switch name {
		case "producer":
			err = scan(value, &b.producer)
			b.producer += s.producers
		case "txn":
			b.transactional = true
		case "time":
			b.forged, err = true, scan(value, &ms)
		case "at":
			b.forged, err = true, scan(value, &b.base)
		default:
			codec, err = compress.ParseCodec(name)
		}
		must(err, args[0])
		args = args[1:]
	}
	unkeyed := false
	for i, arg := range args {
		b.records = append(b.records, recordOf(arg, ms))
		unkeyed = unkeyed || b.records[i].Key == nil
	}
	if s.settings.Compact && unkeyed && !b.forged {
		if _, err := s.log.Append(b.build(codec), time.Now()); !errors.Is(err,
			record.ErrInvalidRecord) {
			fail("append a record without a key to a compacted topic: %v", err)
		}
		return
	}
	s.append(b, codec)
}

// recordOf parses an argument of put.
func recordOf(word string, ms int64) record.Record {
	key, value, valued := strings.Cut(word, "=")
	r := record.Record{Timestamp: ms,
		Headers: []record.Header{{Key: []byte("h"), Value: []byte(word)}, {Key: []byte("h")}}}
	if unquoted, err := strconv.Unquote(key); err == nil {
		r.Key = []byte(unquoted) // may be empty
	} else if key != "" {
		r.Key = []byte(key)
	}
	if text, times, ok := strings.Cut(value, "*"); ok && valued {
		n, err := strconv.Atoi(times)
		must(err, "repeat a value")
		value, r.Headers = strings.Repeat(text, n), nil
	}
	if valued {
		r.Value = []byte(value)
	}
	return r
}

// build returns the batch as its producer sends it.
func (b *ledgerBatch) build(codec compress.Codec) record.Batch {
	id := record.Identity{LastOffsetDelta: int32(len(b.records) - 1), LeaderEpoch: -1,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	if b.producer >= 0 {
		id.ProducerID, id.ProducerEpoch, id.BaseSequence, id.Transactional = b.producer, 0,
			b.sequence, b.transactional
	}
	builder := record.NewBuilder(codec, compress.LevelDefault)
	builder.Reset(id)
	for i := range b.records {
		b.records[i].Offset = int64(i)
		builder.Add(&b.records[i])
		b.records[i].Offset += b.base
	}
	built, err := builder.Build(nil)
	must(err, "build")
	return built
}

// append appends a batch to the log and to the ledger. A leader would reject a forged batch, so
// append passes such a batch to AppendReplicated, which does not validate batches.
func (s *scenario) append(b ledgerBatch, codec compress.Codec) {
	if b.producer >= 0 {
		b.sequence = s.ledger.nextSequence(b.producer)
		b.transactional = b.transactional || s.log.Producers().HasOpenTransaction(b.producer, 0)
	}
	built := b.build(codec)
	b.wire = append(b.wire, built...)
	if b.forged {
		built.SetBaseOffset(b.base)
		built.SetLeaderEpoch(s.epoch)
		must(s.log.AppendReplicated(built, time.Now()), "append as a follower")
	} else {
		got, err := s.log.AppendVerified(built, logstore.Verified{Transaction: b.transactional},
			time.Now())
		must(err, "append")
		if got.BaseOffset != b.base || got.Duplicate {
			fail("append at %d returned %+v", b.base, got)
		}
	}
	s.ledger.append(b)
	s.replicated()
}

// fill appends many records. For example, "n=1000 batch=10 from=0 keys=100 value=50" appends 1000
// records in batches of 10. Their keys are the numbers from 0 on, modulo 100, and their values have
// 50 bytes. With txn=5 the records are in a transaction of producer 5.
func (s *scenario) fill(args []string) {
	n, batch, from, keys, value, txn := 0, 1, 0, 1<<30, 10, -1
	for _, arg := range args {
		name, text, _ := strings.Cut(arg, "=")
		to := map[string]*int{"n": &n, "batch": &batch, "from": &from, "keys": &keys,
			"value": &value, "txn": &txn}[name]
		if to == nil {
			fail("fill %s", arg)
		}
		must(scan(text, to), arg)
	}
	for i := 0; i < n; {
		b := ledgerBatch{producer: int64(txn), base: s.ledger.end, transactional: txn >= 0}
		for range min(batch, n-i) {
			r := record.Record{Timestamp: time.Now().UnixMilli(),
				Key:   fmt.Appendf(nil, "k%d", (from+i)%keys),
				Value: []byte(strings.Repeat("v", value))}
			b.records = append(b.records, r)
			i++
		}
		s.append(b, compress.None)
	}
}

// endTxn writes the marker that ends a producer's transaction.
func (s *scenario) endTxn(args []string, commit bool) {
	var producer int64
	must(scan(args[0], &producer), "producer")
	s.end(s.producers+producer, commit)
}

func (s *scenario) end(producer int64, commit bool) {
	got, err := s.log.AppendControl(logstore.EndTxn{ProducerID: producer, Commit: commit},
		time.Now())
	must(err, "end a transaction")
	if got.BaseOffset != s.ledger.end {
		fail("marker is at %d, want %d", got.BaseOffset, s.ledger.end)
	}
	s.ledger.append(ledgerBatch{base: s.ledger.end, producer: producer, marker: true,
		commit: commit})
	s.replicated()
}

func (s *scenario) roll() {
	_, err := s.log.Compaction().Roll()
	must(err, "roll")
}

// wait advances the time, and prints what the cleaner has done meanwhile, unless the second
// argument is "quietly".
func (s *scenario) wait(args []string) {
	var d time.Duration
	must(duration(args[0], &d), "wait")
	time.Sleep(d)
	synctest.Wait()
	now, was := s.totals(), s.reported
	s.reported = now
	if len(args) > 1 && args[1] == "quietly" {
		return
	}
	passes := ""
	for _, result := range runResults {
		if n := now.runs[result] - was.runs[result]; n > 0 {
			passes += fmt.Sprintf("%d %s, ", n, result)
		}
	}
	if passes == "" {
		fmt.Fprintf(&s.out, "no pass (%s)\n", now.reason)
		return
	}
	fmt.Fprintf(&s.out, "passes: %sremoved %d, read %s, wrote %s, freed %s (%s)\n", passes,
		now.removed-was.removed,
		size(now.read-was.read), size(now.written-was.written), size(now.reclaimed-was.reclaimed),
		now.reason)
	if now.lastError != "" {
		fmt.Fprintf(&s.out, "error: %s\n", now.lastError)
	}
}

// size formats a number of bytes, and rounds large numbers to kB.
func size(n int64) string {
	if n >= 20_000 {
		return fmt.Sprintf("%d kB", (n+500)/1000)
	}
	return fmt.Sprintf("%d B", n)
}

// truncate truncates the log to an offset, as a follower does, and then makes this broker its
// leader in a new epoch. A negative argument is the number of offsets to remove.
func (s *scenario) truncate(args []string) {
	var offset int64
	must(scan(args[0], &offset), "offset")
	if offset < 0 {
		offset += s.ledger.end
	}
	offset = min(max(offset, s.log.LogStart()+1), s.ledger.end)
	if offset >= s.ledger.end {
		return
	}
	must(s.log.TruncateTo(offset), "truncate")
	if end := s.log.LogEnd(); end > offset {
		fail("the log ends at %d, truncated to %d", end, offset)
	}
	s.lead()
	if s.ledger.truncate(s) {
		s.producers += 100
	}
	s.abortExpired()
	s.replicated()
}

// abortExpired aborts transactions of producers that were replaced after an unclean truncation
// (scenario.producers), as a coordinator does after their timeout.
func (s *scenario) abortExpired() {
	for _, b := range s.ledger.lastOfProducers() {
		if b.producer < s.producers && s.log.Producers().HasOpenTransaction(b.producer, 0) {
			s.end(b.producer, false)
		}
	}
}

// deleteBefore deletes the records below an offset, as DeleteRecords does. A negative argument is
// relative to the log end.
func (s *scenario) deleteBefore(args []string) {
	var offset int64
	must(scan(args[0], &offset), "offset")
	if offset < 0 {
		offset += s.ledger.end
	}
	offset = min(max(offset, s.log.LogStart()), s.log.HighWatermark())
	must(s.log.DeleteBefore(offset), "delete records")
	if start := s.log.LogStart(); start < offset {
		fail("the log starts at %d, deleted below %d", start, offset)
	}
	s.ledger.start = offset
}

// memory sets the cleaner's memory budget in bytes.
func (s *scenario) memory(args []string) {
	must(scan(args[0], &s.budget.MemoryBytes), "memory")
	s.cleaner.Configure(s.budget)
}
