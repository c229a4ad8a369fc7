package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

// Sizes up to which keys, values and headers are shown in the list and on a record's own page.
const (
	valueBytesMax = 4 << 10
	wholeBytesMax = 1 << 20
	headersMax    = 32
	pageRecords   = 50
)

// messages is the tab Messages of a topic, and its form.
type messages struct {
	Topic     string
	Partition string // "": all partitions
	Position  string // latest, tail, earliest, offset or time
	At        string // the offset, or the time in the format of the browser's field
	Key       string
	Value     string
	Latest    bool // true to hide records that a later record in the log supersedes
	Limit     int

	Records []messageRow
	Hidden  int // number of hidden superseded records
	// Unsure is the number of records for which there was no time to look for later records.
	Unsure   int
	Looked   int64 // number of records read, on this page and the pages before it
	Found    int64 // number of records shown, on this page and the pages before it
	Span     int64 // number of offsets in the partitions
	Limited  string
	More     string // relative URL of the next page; "" at the end
	Download string // relative URL of the records as a file
	Tail     string // relative URL of the stream of new records, or "" unless Position is tail
}

// messageRow is one record on a page. Its bytes have already been converted to text.
type messageRow struct {
	Partition  int32
	Offset     int64
	Time       instant
	Key, Value excerpt
	NullKey    bool
	Tombstone  bool
	Superseded bool
	Headers    []headerRow
	Whole      string // relative URL of the page with the whole record
	KeyLink    string // relative URL of the key's records, or ""
	Same       string // equal for records with the same key; set only in a tail
}

type headerRow struct {
	Key   string
	Value excerpt
}

// excerpt is the beginning of a key or value as text.
type excerpt struct {
	Text  string
	Hex   bool // true if Text contains hexadecimal digits
	Bytes int  // full size
	Cut   bool // true if Text was truncated
}

func excerptOf(raw []byte, most int) excerpt {
	part := excerpt{Bytes: len(raw)}
	shown := raw
	if len(raw) > most {
		text, _ := cut(string(raw), most)
		shown, part.Cut = []byte(text), true
	}
	part.Text, part.Hex = printable(shown)
	return part
}

// browse reads the records that the request's form selects.
func (c *Console) browse(r *http.Request, client *kafka.Client, topic string,
	compacted bool) (messages, error) {
	page, query, err := parseBrowse(r.URL.Query(), topic)
	if err != nil {
		return page, err
	}
	found, err := client.Browse(r.Context(), query)
	if err != nil {
		return page, err
	}
	list := r.URL.Query().Encode()
	page.Download = "download?" + list
	if page.Latest && compacted {
		page.Unsure = c.markSuperseded(r.Context(), topic, found.Records)
	}
	page.Looked, page.Span, page.Limited = page.Looked+found.Looked, found.Span, found.Limited
	for i := range found.Records {
		if page.Latest && found.Records[i].Superseded {
			page.Hidden++
			continue
		}
		row := messageOf(&found.Records[i], topic, valueBytesMax)
		row.Whole += "&" + url.Values{"list": {list}}.Encode()
		if page.Position == positionTail {
			row.Same = sameKey(&found.Records[i])
		}
		page.Records = append(page.Records, row)
	}
	page.Found += int64(len(page.Records))
	switch {
	case page.Position == positionTail:
		page.follow(found.Ends)
	case len(found.Next) > 0:
		next := maps.Clone(r.URL.Query())
		next.Set("cursor", formatCursor(found.Next))
		next.Set("looked", strconv.FormatInt(page.Looked, 10))
		next.Set("found", strconv.FormatInt(page.Found, 10))
		page.More = "topic?" + next.Encode()
	}
	return page, nil
}

// markLimit limits the time to look for later records with the keys on a page.
const markLimit = 3 * time.Second

// markSuperseded marks the records of a compacted topic that are not the latest records of their
// keys. It looks up each key, because the later record may not be on the page. It returns the
// number of records that it could not check within markLimit.
func (c *Console) markSuperseded(ctx context.Context, topic string,
	records []kafka.Record) (unsure int) {
	ctx, cancel := context.WithTimeout(ctx, markLimit)
	defer cancel()
	for i := range records {
		r := &records[i]
		if r.Key == nil || r.Superseded {
			continue
		}
		latest, known := c.latestOffset(ctx, remote.KeyQuery{Topic: topic, Key: r.Key,
			Partition: r.Partition, Latest: true, ValueBytes: 1})
		if r.Superseded = latest > r.Offset; !known {
			unsure++
		}
	}
	return unsure
}

// latestOffset returns the offset of a key's latest committed record in one partition.
func (c *Console) latestOffset(ctx context.Context, q remote.KeyQuery) (offset int64, known bool) {
	if len(q.Key) > keyBytesMax || ctx.Err() != nil {
		return -1, false
	}
	found, _, err := c.opts.Fleet.Keys(ctx, q)
	if err != nil || len(found.Partitions) != 1 {
		return -1, false
	}
	for i := range found.Partitions[0].Records {
		keyRecord := &found.Partitions[0].Records[i]
		if keyRecord.State == report.RecordLive || keyRecord.State == report.RecordTombstone {
			return keyRecord.Offset, true
		}
	}
	return -1, false
}

// parseBrowse parses the form. The page contains the fields of the form even if parseBrowse returns
// an error.
func parseBrowse(q url.Values, topic string) (page messages, query kafka.Query, err error) {
	page = messages{Topic: topic, Partition: q.Get("partition"), Position: q.Get("position"),
		At: q.Get("at"), Key: q.Get("key"), Value: q.Get("value"), Latest: q.Get("latest") != "",
		Limit: pageRecords}
	if n, err := strconv.Atoi(q.Get("limit")); err == nil && n > 0 {
		page.Limit = min(n, kafka.RecordsMax)
	}
	query = kafka.Query{Topic: topic, Key: []byte(page.Key), Value: []byte(page.Value),
		Limit: page.Limit}
	if page.Partition != "" {
		n, err := strconv.ParseInt(page.Partition, 10, 32)
		if err != nil || n < 0 {
			return page, query, badRequest("The partition " + page.Partition + " is not a number.")
		}
		query.Partitions = []int32{int32(n)}
	}
	switch page.Position {
	case "earliest":
	case "offset":
		n, err := strconv.ParseInt(strings.ReplaceAll(page.At, ",", ""), 10, 64)
		if err != nil || n < 0 {
			return page, query, badRequest("The offset " + page.At + " is not a number.")
		}
		query.From = fromOffset{n}.all(query.Partitions)
		if query.From == nil {
			return page, query, badRequest("To begin at an offset, choose a partition.")
		}
	case "time":
		if query.Since, err = parseTime(page.At); err != nil {
			return page, query, badRequest("The time " + page.At +
				" is invalid: use the form 2026-01-31T23:59:59Z (UTC).")
		}
	case positionTail:
		query.Backward = true
		return page, query, nil
	default:
		page.Position, query.Backward = "latest", true
	}
	if cursor := q.Get("cursor"); cursor != "" {
		page.Looked, page.Found = parseTotal(q.Get("looked")), parseTotal(q.Get("found"))
		query.Since = time.Time{}
		if query.From, err = parseCursor(cursor); err != nil {
			return page, query, badRequest("The cursor is invalid.")
		}
		if len(query.Partitions) == 0 {
			query.Partitions = slices.Sorted(maps.Keys(query.From))
		}
	}
	return page, query, nil
}

// parseTotal parses a number of records on the previous pages. It returns 0 if the text is invalid.
func parseTotal(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	const most = 1 << 60
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// fromOffset is an offset at which a browse begins.
type fromOffset struct{ offset int64 }

func (f fromOffset) all(partitions []int32) (from map[int32]int64) {
	for _, p := range partitions {
		if from == nil {
			from = map[int32]int64{}
		}
		from[p] = f.offset
	}
	return from
}

func badRequest(text string) error { return &fault{status: http.StatusBadRequest, text: text} }

// parseTime parses RFC 3339, and the value of a browser's local time field, which it interprets as
// UTC.
func parseTime(text string) (moment time.Time, err error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04",
		"2006-01-02 15:04:05", "2006-01-02"} {
		if moment, err = time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return moment, nil
		}
	}
	return moment, err
}

// cursorMax is the maximum number of partitions in a cursor.
const cursorMax = 10_000

// formatCursor formats offsets by partition, such as "0:12,1:7".
func formatCursor(next map[int32]int64) string {
	var words []string
	for _, p := range slices.Sorted(maps.Keys(next)) {
		words = append(words, strconv.Itoa(int(p))+":"+strconv.FormatInt(next[p], 10))
	}
	return strings.Join(words, ",")
}

func parseCursor(text string) (map[int32]int64, error) {
	next := map[int32]int64{}
	for word := range strings.SplitSeq(text, ",") {
		index, offset, _ := strings.Cut(word, ":")
		p, err := strconv.ParseInt(index, 10, 32)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			return nil, err
		}
		if next[int32(p)] = n; len(next) > cursorMax {
			return nil, strconv.ErrRange
		}
	}
	return next, nil
}

// messageOf formats a record. It truncates keys, values and headers to the given number of bytes.
func messageOf(r *kafka.Record, topic string, most int) messageRow {
	row := messageRow{Partition: r.Partition, Offset: r.Offset, Time: instant{r.Time},
		Key: excerptOf(r.Key, most), Value: excerptOf(r.Value, most), NullKey: r.Key == nil,
		Tombstone: r.Tombstone(), Superseded: r.Superseded, KeyLink: keyLink(topic, r.Key),
		Whole: query("message", "topic", topic, "partition", r.Partition, "offset", r.Offset)}
	for i, h := range r.Headers {
		if i == headersMax {
			break
		}
		name, _ := printable([]byte(h.Key))
		row.Headers = append(row.Headers, headerRow{name, excerptOf(h.Value, most)})
	}
	return row
}
