package v1alpha1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// AcceptedDataLoss returns the consents in the annotation heartwood.dev/accept-data-loss, by
// partition. The annotation is a list such as "3=<directory> 5=<directory>@7". For each partition
// it contains the directory id of the disk whose records are to be used. If this disk does not
// replace a lost disk, @ and the leader epoch follow, which limits the consent to one election. If
// the disk will replace a lost volume but does not exist yet, the UID of the lost volume's claim
// takes the place of the directory id, also with @ and the leader epoch. Words that cannot be
// parsed are ignored.
func (t *Topic) AcceptedDataLoss() map[int32]string {
	var consents map[int32]string
	for word := range strings.FieldsSeq(t.Annotations[AnnotationAcceptDataLoss]) {
		partition, consent, err := parsePartitionValue(word)
		if err != nil {
			continue
		}
		if consents == nil {
			consents = map[int32]string{}
		}
		consents[partition] = consent
	}
	return consents
}

// Reassignments returns the replicas that the annotation heartwood.dev/reassign requests, by
// partition, with the preferred leader first. The annotation is a list such as "0=1,2,3 4=2,3,0".
// If a word cannot be parsed, the error quotes it.
func (t *Topic) Reassignments() (map[int32][]int32, error) {
	var requested map[int32][]int32
	for word := range strings.FieldsSeq(t.Annotations[AnnotationReassign]) {
		partition, ids, err := parsePartitionValue(word)
		if err != nil {
			return nil, err
		}
		if _, twice := requested[partition]; twice {
			return nil, fmt.Errorf("partition %d is named twice", partition)
		}
		var replicas []int32
		for text := range strings.SplitSeq(ids, ",") {
			id, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return nil, fmt.Errorf("%.50q: want PARTITION=BROKER,BROKER and so on", word)
			}
			if slices.Contains(replicas, int32(id)) {
				return nil, fmt.Errorf("%.50q names broker %d twice", word, id)
			}
			replicas = append(replicas, int32(id))
		}
		if requested == nil {
			requested = map[int32][]int32{}
		}
		requested[partition] = replicas
	}
	return requested, nil
}

// parsePartitionValue parses a word of the form PARTITION=VALUE.
func parsePartitionValue(word string) (partition int32, value string, err error) {
	number, value, ok := strings.Cut(word, "=")
	index, err := strconv.ParseUint(number, 10, 31)
	if !ok || err != nil || value == "" {
		return 0, "", fmt.Errorf("%.50q: want PARTITION=VALUE", word)
	}
	return int32(index), value, nil
}
