package inspect

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"heartwood.dev/heartwood/internal/record"
)

// line is an item of the output. It is printed as one line of JSON or of text.
type line interface{ text() string }

// printer writes lines. It stores the first error of its writer.
type printer struct {
	out  io.Writer
	json bool
	done *atomic.Int64 // number of printed lines; nil if they are not counted
	err  error
}

// print writes a line. After an error it does nothing. The caller checks err at the end.
func (p *printer) print(l line) {
	if p.err != nil {
		return
	}
	if p.done != nil {
		p.done.Add(1)
	}
	if !p.json {
		_, p.err = fmt.Fprintln(p.out, l.text())
		return
	}
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	p.err = encoder.Encode(l)
}

// fileLine is the name of the file that contains the following items. It is printed only as text,
// because each JSON object contains the name.
type fileLine string

func (l fileLine) text() string { return string(l) }

// batchLine is a batch in a data file.
type batchLine struct {
	File          string `json:"file"`
	Position      int64  `json:"position"`
	Bytes         int    `json:"bytes"` // size of the whole batch in the file
	BaseOffset    int64  `json:"baseOffset"`
	LastOffset    int64  `json:"lastOffset"`
	Records       int32  `json:"records"`
	Codec         string `json:"codec"`
	TimestampType string `json:"timestampType"`
	MaxTimestamp  int64  `json:"maxTimestamp"` // in ms, from the batch header
	LeaderEpoch   int32  `json:"leaderEpoch"`
	ProducerID    int64  `json:"producerId"`
	ProducerEpoch int16  `json:"producerEpoch"`
	BaseSequence  int32  `json:"baseSequence"`
	Transactional bool   `json:"transactional"`
	Control       bool   `json:"control"`
	DeleteHorizon *int64 `json:"deleteHorizon,omitempty"` // ms; nil if there is none
	CRC           uint32 `json:"crc"`
	Problem       string `json:"problem,omitempty"` // empty if no problem was found
}

func newBatchLine(path string, b batch, problem error) batchLine {
	l := batchLine{
		File: path, Position: b.position, Bytes: b.size, BaseOffset: b.BaseOffset(),
		LastOffset: b.LastOffset(), Records: b.Count(),
		Codec: b.Codec().String(), TimestampType: "create", MaxTimestamp: b.MaxTimestamp(),
		LeaderEpoch: b.LeaderEpoch(),
		ProducerID:  b.ProducerID(), ProducerEpoch: b.ProducerEpoch(),
		BaseSequence:  b.BaseSequence(),
		Transactional: b.Transactional(), Control: b.Control(), CRC: b.CRC(),
	}
	if b.TimestampType() == record.LogAppendTime {
		l.TimestampType = "append"
	}
	if horizon, ok := b.DeleteHorizon(); ok {
		l.DeleteHorizon = &horizon
	}
	if problem != nil {
		l.Problem = problem.Error()
	}
	return l
}

// text omits the fields that are unset in most batches.
func (l batchLine) text() string {
	var s strings.Builder
	fmt.Fprintf(&s,
		"batch position=%d bytes=%d offsets=%d-%d records=%d codec=%s time=%s:%s epoch=%d",
		l.Position, l.Bytes, l.BaseOffset, l.LastOffset, l.Records, l.Codec, l.TimestampType,
		timeText(l.MaxTimestamp), l.LeaderEpoch)
	if l.ProducerID >= 0 {
		fmt.Fprintf(&s, " producer=%d:%d sequence=%d", l.ProducerID, l.ProducerEpoch,
			l.BaseSequence)
	}
	if l.Transactional {
		s.WriteString(" transactional")
	}
	if l.Control {
		s.WriteString(" control")
	}
	if l.DeleteHorizon != nil {
		fmt.Fprintf(&s, " deleteHorizon=%s", timeText(*l.DeleteHorizon))
	}
	fmt.Fprintf(&s, " crc=%#08x", l.CRC)
	if l.Problem != "" {
		fmt.Fprintf(&s, " problem=%q", l.Problem)
	}
	return s.String()
}

// recordLine is a record in the batch that was printed last.
type recordLine struct {
	File      string  `json:"file"`
	Offset    int64   `json:"offset"`
	Timestamp int64   `json:"timestamp"`
	Key       excerpt `json:"key"`
	// KeyBytes is the length of the whole key, which may be truncated in Key.
	KeyBytes   int          `json:"keyBytes"`
	Value      excerpt      `json:"value"`
	ValueBytes int          `json:"valueBytes"`
	Headers    []headerLine `json:"headers,omitempty"`
	// Marker is the type of a control record: commit, abort, or another type.
	Marker string `json:"marker,omitempty"`
}

// headerLine is a header of a record.
type headerLine struct {
	Key   excerpt `json:"key"`
	Value excerpt `json:"value"`
}

func newRecordLine(path string, r *record.Record, control bool, textMax int) recordLine {
	l := recordLine{
		File: path, Offset: r.Offset, Timestamp: r.Timestamp,
		Key: excerpt{r.Key, textMax}, KeyBytes: len(r.Key), Value: excerpt{r.Value, textMax},
		ValueBytes: len(r.Value),
	}
	for h := range r.AllHeaders() {
		l.Headers = append(l.Headers,
			headerLine{Key: excerpt{h.Key, textMax}, Value: excerpt{h.Value, textMax}})
	}
	if control {
		l.Marker = marker(r.Key)
	}
	return l
}

func (l recordLine) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "  record offset=%d time=%s key=%s value=%s", l.Offset, timeText(l.Timestamp),
		l.Key, l.Value)
	for _, h := range l.Headers {
		fmt.Fprintf(&s, " header:%s=%s", h.Key, h.Value)
	}
	if l.Marker != "" {
		fmt.Fprintf(&s, " marker=%s", l.Marker)
	}
	return s.String()
}

// excerpt is the beginning of a key or value. A nil slice is printed as null.
type excerpt struct {
	bytes []byte
	max   int // maximum number of bytes to print
}

// truncated returns the bytes to print. It does not split a UTF-8 character.
func (e excerpt) truncated() []byte {
	end := min(len(e.bytes), e.max)
	for back := 1; end < len(e.bytes) && back < utf8.UTFMax && end > 0 &&
		!utf8.RuneStart(e.bytes[end]); back++ {
		end--
	}
	return e.bytes[:end]
}

// String returns the bytes as a Go string literal. If the bytes are truncated, it adds the full
// length.
func (e excerpt) String() string {
	switch text := e.truncated(); {
	case e.bytes == nil:
		return "null"
	case len(text) < len(e.bytes):
		return fmt.Sprintf("%q...(%d bytes)", text, len(e.bytes))
	default:
		return strconv.Quote(string(text))
	}
}

// MarshalJSON returns null or a string. Bytes that are not UTF-8 are escaped as in Go, because JSON
// cannot represent them.
func (e excerpt) MarshalJSON() ([]byte, error) {
	if e.bytes == nil {
		return []byte("null"), nil
	}
	text := string(e.truncated())
	if !utf8.ValidString(text) {
		escaped := strconv.Quote(text)
		text = escaped[1 : len(escaped)-1]
	}
	return json.Marshal(text)
}

// offsetLine is an entry of the offset index.
type offsetLine struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"`
	Position int32  `json:"position"`
}

func (l offsetLine) text() string {
	return fmt.Sprintf("entry offset=%d position=%d", l.Offset, l.Position)
}

// timeLine is an entry of the time index.
type timeLine struct {
	File      string `json:"file"`
	Timestamp int64  `json:"timestamp"`
	Offset    int64  `json:"offset"`
}

func (l timeLine) text() string {
	return fmt.Sprintf("entry time=%s offset=%d", timeText(l.Timestamp), l.Offset)
}

// finding is a problem that verify or dump has found.
type finding struct {
	File     string `json:"file"`
	Position int64  `json:"position"` // position in File
	// Offset is the batch's base offset, or the next expected offset if there is no batch. It is
	// nil if File is not a data file.
	Offset  *int64 `json:"offset,omitempty"`
	Problem string `json:"problem"`
}

func (l finding) text() string {
	if l.Offset != nil {
		return fmt.Sprintf("%s: position %d: offset %d: %s", l.File, l.Position, *l.Offset,
			l.Problem)
	}
	return fmt.Sprintf("%s: position %d: %s", l.File, l.Position, l.Problem)
}

// timeText formats a timestamp in milliseconds as RFC 3339.
func timeText(ms int64) string {
	if ms < 0 {
		return "none"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// marker returns the type of a control record. The record's key contains the version and the type,
// two bytes each.
func marker(key []byte) string {
	if len(key) < 4 {
		return "unknown"
	}
	switch kind := binary.BigEndian.Uint16(key[2:]); kind {
	case 0:
		return "abort"
	case 1:
		return "commit"
	default:
		return fmt.Sprintf("type %d", kind)
	}
}
