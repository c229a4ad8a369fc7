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
		"the first": {0, "", Broker{Directory: "a", ProducerIDs: 5 + ahead},
			5 + ahead},
		"again, with more allocated": {5 + ahead, "a",
			Broker{Directory: "a", ProducerIDs: 9 + ahead}, 9 + ahead},
		"a new disk, the clock is later": {5 + ahead, "a",
			Broker{Directory: "b", ProducerIDs: 7 * ahead}, 7 * ahead},
		"a new disk, the clock is not": {5 + ahead, "a",
			Broker{Directory: "b", ProducerIDs: ahead}, 5 + 2*ahead},
		"still new, because it was killed": {5 + 2*ahead, "b",
			Broker{Directory: "b", ProducerIDs: ahead}, 5 + 2*ahead},
		"an earlier disk": {5 + 2*ahead, "b",
			Broker{Directory: "a", ProducerIDs: 9 + ahead}, 5 + 3*ahead},
		"the same disk with a damaged file": {5 + ahead, "a",
			Broker{Directory: "a", ProducerIDs: ahead, ProducerIDsLost: true}, 5 + 2*ahead},
		"a damaged file and no bound": {0, "",
			Broker{Directory: "a", ProducerIDs: ahead, ProducerIDsLost: true}, ahead},
		"a broker without a bound": {0, "", Broker{Directory: "a"}, 0},
	} {
		if got := NextProducerIDs(test.bound, test.directory, test.self); got != test.want {
			t.Errorf("%s: bound %d, want %d", name, got, test.want)
		}
	}
}
