package cleaner

import (
	"fmt"
	"strings"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// print prints the log as it is on disk, one line per segment, with bars between the batches.
// "3:a=1" is a record at offset 3, "3:a" a tombstone, "3:=1" a record without a key. "5-6:empty" is
// a batch without records; "7:COMMIT(5)" is a marker of producer 5. A batch begins with its codec
// and producer, if it has them.
func (s *scenario) print() {
	bases := s.segments()
	for i, base := range bases {
		content, err := s.fsys.ReadFile(segmentPath(base))
		must(err, "read a segment")
		var batches []string
		for _, b := range storetest.Split(scenarioTB{}, content) {
			batches = append(batches, format(b))
		}
		name := "segment"
		if i == len(bases)-1 {
			name = "active "
		}
		s.out.WriteString(strings.TrimRight(fmt.Sprintf("%s %d: %s", name, base,
			strings.Join(batches, " | ")), " ") + "\n")
	}
	if start := s.log.LogStart(); start > 0 {
		fmt.Fprintf(&s.out, "begins at %d\n", start)
	}
}

// format returns the text of a batch, as print describes it.
func format(b record.Batch) string {
	var words []string
	if codec := b.Codec(); codec != 0 {
		words = append(words, codec.String())
	}
	if b.Control() {
		m, ok, err := b.Marker()
		if err != nil || !ok {
			return fmt.Sprintf("%d:a marker without a record", b.BaseOffset())
		}
		return fmt.Sprintf("%d:%s(%d)", b.BaseOffset(), map[record.ControlType]string{
			record.ControlAbort: "ABORT", record.ControlCommit: "COMMIT",
		}[m.Type], b.ProducerID())
	}
	if b.ProducerID() >= 0 {
		kind := "p"
		if b.Transactional() {
			kind = "txn"
		}
		words = append(words, fmt.Sprintf("%s%d", kind, b.ProducerID()))
	}
	if b.Count() == 0 {
		return strings.Join(append(words,
			fmt.Sprintf("%d-%d:empty", b.BaseOffset(), b.LastOffset())), " ")
	}
	for _, r := range recordsOf(b) {
		text := fmt.Sprintf("%d:%s", r.Offset, r.Key)
		if r.Value != nil {
			value := string(r.Value)
			if len(value) > 20 {
				value = fmt.Sprintf("%.1s*%d", value, len(value))
			}
			text += "=" + value
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// counts prints the numbers of segments, batches, records, keys and tombstones in the log. It is
// used if the log is too long to print.
func (s *scenario) counts() {
	there, keys, tombstones := s.scan(), map[string]bool{}, 0
	for _, r := range there.records {
		keys[string(r.Key)] = true
		if r.Value == nil {
			tombstones++
		}
	}
	fmt.Fprintf(&s.out, "segments %d, batches %d, records %d, keys %d, tombstones %d\n",
		len(s.segments()), len(there.batches), len(there.records), len(keys), tombstones)
}
