package remote

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// KeyQuery is a request for a key's records.
type KeyQuery struct {
	Topic string
	Key   []byte
	// Partition is the partition to search; -1: the partition that the default partitioner of Kafka's
	// clients chooses. If All is set, all partitions are searched.
	Partition int32
	All       bool
	Latest    bool // only the latest committed record
	// ValueBytes is the size to which values are truncated.
	ValueBytes int
}

// path returns the path and the query of the request.
func (q *KeyQuery) path(partition int32, all bool) string {
	values := url.Values{"key": {base64.RawURLEncoding.EncodeToString(q.Key)},
		"valueBytes": {strconv.Itoa(q.ValueBytes)}}
	if partition >= 0 {
		values.Set("partition", strconv.Itoa(int(partition)))
	}
	if all {
		values.Set("all", "true")
	}
	if q.Latest {
		values.Set("latest", "true")
	}
	return "/api/v1/topics/" + url.PathEscape(q.Topic) + "/keys?" + values.Encode()
}

// Keys requests a key's records from the leaders of the searched partitions. It sends the request
// to the brokers at addresses, and then to the brokers that their responses name, at the first
// address's port. It fails if a leader cannot be reached. An address that does not respond is
// skipped if the other responses are sufficient.
func (c *Client) Keys(ctx context.Context, addresses []string, q KeyQuery) (report.Keys, error) {
	all := report.Keys{Topic: q.Topic, Key: q.Key}
	var silent error // error of the addresses that did not respond
	answered := false
	for _, address := range addresses {
		var answer report.Keys
		err := c.do(ctx, http.MethodGet, address, q.path(q.Partition, q.All), &answer)
		if errors.As(err, new(*Refused)) {
			return all, err
		}
		if err != nil {
			silent = errors.Join(silent, err)
			continue
		}
		answered = true
		addKeys(&all, answer)
		if len(all.Elsewhere) == 0 {
			break
		}
	}
	if !answered {
		return all, silent
	}
	_, port, _ := net.SplitHostPort(addresses[0]) // ParseAddress has validated it
	for _, missing := range slices.Clone(all.Elsewhere) {
		if missing.Host == "" {
			return all, errors.Join(fmt.Errorf("look up the key: partition %d of %s has no leader",
				missing.Partition, q.Topic), silent)
		}
		if err := c.keysOf(ctx, &all, q, missing, net.JoinHostPort(missing.Host, port)); err != nil {
			return all, errors.Join(err, silent)
		}
	}
	slices.SortFunc(all.Partitions,
		func(a, b report.KeyPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	return all, nil
}

// keysOf requests the key's records in one partition from its leader.
func (c *Client) keysOf(ctx context.Context, all *report.Keys, q KeyQuery,
	from report.KeyElsewhere, address string) error {
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	var answer report.Keys
	err := c.do(ctx, http.MethodGet, address, q.path(from.Partition, false), &answer)
	if err == nil && len(answer.Partitions) == 0 {
		err = fmt.Errorf("%s is not this broker", address)
	}
	if err != nil {
		return fmt.Errorf("ask broker %d, which leads partition %d: %w: give its address with "+
			"--address", from.Broker, from.Partition, err)
	}
	addKeys(all, answer)
	return nil
}

// addKeys adds a response. Its partitions are removed from Elsewhere.
func addKeys(all *report.Keys, answer report.Keys) {
	known := func(partition int32) bool {
		return slices.ContainsFunc(all.Partitions,
			func(p report.KeyPartition) bool { return p.Partition == partition })
	}
	for _, p := range answer.Partitions {
		if !known(p.Partition) {
			all.Partitions = append(all.Partitions, p)
		}
	}
	for _, e := range answer.Elsewhere {
		if !slices.ContainsFunc(all.Elsewhere,
			func(o report.KeyElsewhere) bool { return o.Partition == e.Partition }) {
			all.Elsewhere = append(all.Elsewhere, e)
		}
	}
	all.Elsewhere = slices.DeleteFunc(all.Elsewhere,
		func(e report.KeyElsewhere) bool { return known(e.Partition) })
}

// LatestValue returns the key's latest committed record. It fails with a *NoValue if the key has no
// value. If several partitions were searched, the latest record is the one with the latest
// timestamp, and each partition's search must have found a record or have been complete.
func LatestValue(keys *report.Keys) (*report.KeyRecord, error) {
	none := &NoValue{keys: keys}
	var latest *report.KeyRecord
	for i := range keys.Partitions {
		p := &keys.Partitions[i]
		if p.State == report.KeyUnknown && !none.unknown {
			none.unknown, none.unknownIn = true, p.Partition
		}
		for n := range p.Records {
			r := &p.Records[n]
			if r.State != report.RecordLive && r.State != report.RecordTombstone {
				continue
			}
			if latest == nil || r.Timestamp > latest.Timestamp {
				latest, none.partition = r, p.Partition
			}
			break
		}
	}
	if latest == nil || none.unknown || latest.State == report.RecordTombstone {
		none.tombstone = latest
		return nil, none
	}
	return latest, nil
}

// NoValue is the error for a key without a known value. Either no record was found, or the latest
// record is a tombstone, or a partition that was not searched to the end may contain a newer
// record.
type NoValue struct {
	keys      *report.Keys
	tombstone *report.KeyRecord
	partition int32 // partition of the tombstone
	unknown   bool  // true if an unsearched part of a log may contain a record
	unknownIn int32 // the first such partition
}

// NoRecord reports whether the partitions were searched to the end and contain no record with the
// key.
func (n *NoValue) NoRecord() bool { return !n.unknown && n.tombstone == nil }

// Unknown reports whether the key may have a value, because a part of a log was not searched.
func (n *NoValue) Unknown() bool { return n.unknown }

// Deleted reports whether the key's latest record is a tombstone.
func (n *NoValue) Deleted() bool { return n.tombstone != nil }

func (n *NoValue) Error() string {
	switch {
	case n.unknown:
		return fmt.Sprintf("key %q was not found in the newest part of partition %d of topic %s; the "+
			"search ended at its limit, because segments without a key sidecar have to be read, so "+
			"the latest value is unknown", n.keys.Key, n.unknownIn, n.keys.Topic)
	case n.tombstone != nil:
		return fmt.Sprintf("key %q of topic %s was deleted by offset %d of partition %d", n.keys.Key,
			n.keys.Topic, n.tombstone.Offset, n.partition)
	}
	return fmt.Sprintf("topic %s has no record of key %q", n.keys.Topic, n.keys.Key)
}

// valueColumns is the maximum number of characters of a value in a table.
const valueColumns = 60

// PrintKeys writes a table with one line for each of the key's records.
func PrintKeys(out io.Writer, keys *report.Keys) error {
	type row struct {
		partition int32
		record    *report.KeyRecord
	}
	var rows []row
	for i := range keys.Partitions {
		p := &keys.Partitions[i]
		for n := range p.Records {
			rows = append(rows, row{p.Partition, &p.Records[n]})
		}
	}
	err := printTable(out, "PARTITION OFFSET TIME STATE SEGMENT VALUE", rows, func(r row) []string {
		moment := time.UnixMilli(int64(r.record.Timestamp * 1000)).UTC()
		return []string{strconv.Itoa(int(r.partition)), strconv.FormatInt(r.record.Offset, 10),
			moment.Format("2006-01-02T15:04:05.000Z"), stateText(r.record),
			strconv.FormatInt(r.record.Segment, 10), valueText(r.record)}
	})
	for i := range keys.Partitions {
		if p := &keys.Partitions[i]; err == nil && !p.Complete {
			_, err = fmt.Fprintf(out, "The search of partition %d ended at its limit after %s: "+
				"older records may exist.\n", p.Partition, Bytes(p.ReadBytes))
		}
	}
	return err
}

// stateText returns a record's state, and what the record waits for.
func stateText(r *report.KeyRecord) string {
	switch {
	case r.SupersededBy != nil:
		return fmt.Sprintf("superseded by %d", *r.SupersededBy)
	case r.GoesFrom != nil:
		moment := time.UnixMilli(int64(*r.GoesFrom * 1000)).UTC()
		return "tombstone, may go from " + moment.Format("2006-01-02T15:04:05Z")
	case r.WaitsFor != "":
		return "tombstone, waits for " + strings.ReplaceAll(r.WaitsFor, "_", " ")
	}
	return r.State
}

// valueText returns the beginning of a value in quotes.
func valueText(r *report.KeyRecord) string {
	if r.Value == nil {
		return "-"
	}
	text := []rune(strconv.Quote(string(r.Value)))
	if len(text) > valueColumns {
		return string(text[:valueColumns]) + fmt.Sprintf("... (%s)", Bytes(int64(r.ValueBytes)))
	}
	return string(text)
}
