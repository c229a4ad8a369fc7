package reachability

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Peer is a broker process.
type Peer struct {
	Broker int32
	Epoch  int64 // broker epoch
}

func (p Peer) compare(other Peer) int {
	return cmp.Or(cmp.Compare(p.Broker, other.Broker), cmp.Compare(p.Epoch, other.Epoch))
}

// Report contains the peers that a broker cannot reach, sorted and without duplicates.
type Report []Peer

// IDs returns the peers' ids for a message, such as "0, 2".
func (r Report) IDs() string {
	var text []string
	for _, p := range r {
		text = append(text, strconv.Itoa(int(p.Broker)))
	}
	return strings.Join(text, ", ")
}

// reportMax limits the number of peers that ParseReport reads.
const reportMax = 10_000

// String returns the text of a report, such as "0:5,2:7": ids and broker epochs.
func (r Report) String() string {
	var text []string
	for _, p := range r {
		text = append(text, fmt.Sprintf("%d:%d", p.Broker, p.Epoch))
	}
	return strings.Join(text, ",")
}

// ParseReport is the inverse of String. It omits entries that are not valid, because a later
// version may have written the text.
func ParseReport(text string) Report {
	var report Report
	for entry := range strings.SplitSeq(text, ",") {
		id, epoch, _ := strings.Cut(entry, ":")
		broker, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			continue
		}
		number, err := strconv.ParseUint(epoch, 10, 63)
		if err != nil || len(report) == reportMax {
			continue
		}
		report = append(report, Peer{int32(broker), int64(number)})
	}
	slices.SortFunc(report, Peer.compare)
	return slices.Compact(report)
}

// Contains reports whether the report contains a peer.
func (r Report) Contains(p Peer) bool {
	_, found := slices.BinarySearchFunc(r, p, Peer.compare)
	return found
}
