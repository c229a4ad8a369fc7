package metadata

import "testing"

func TestNextProducerIDs(t *testing.T) {
	const ahead = ProducerIDsAhead
	for name, test := range map[string]struct {
		bound     int64
		directory string
		self      Broker
		want      int64
	}{
		"first registration": {0, "", Broker{Directory: "a", ProducerIDs: 5 + ahead},
			5 + ahead},
		"registered again after more allocations": {5 + ahead, "a",
			Broker{Directory: "a", ProducerIDs: 9 + ahead}, 9 + ahead},
		"new disk; the clock is above the bound": {5 + ahead, "a",
			Broker{Directory: "b", ProducerIDs: 7 * ahead}, 7 * ahead},
		"new disk; the clock is below the bound": {5 + ahead, "a",
			Broker{Directory: "b", ProducerIDs: ahead}, 5 + 2*ahead},
		"registered again before the new disk was used": {5 + 2*ahead, "b",
			Broker{Directory: "b", ProducerIDs: ahead}, 5 + 2*ahead},
		"the earlier disk, attached again": {5 + 2*ahead, "b",
			Broker{Directory: "a", ProducerIDs: 9 + ahead}, 5 + 3*ahead},
		"same disk with a damaged file": {5 + ahead, "a",
			Broker{Directory: "a", ProducerIDs: ahead, ProducerIDsLost: true}, 5 + 2*ahead},
		"damaged file, and the store has no bound": {0, "",
			Broker{Directory: "a", ProducerIDs: ahead, ProducerIDsLost: true}, ahead},
		"the broker sends no bound": {0, "", Broker{Directory: "a"}, 0},
	} {
		if got := NextProducerIDs(test.bound, test.directory, test.self); got != test.want {
			t.Errorf("%s: got bound %d, want %d", name, got, test.want)
		}
	}
}
