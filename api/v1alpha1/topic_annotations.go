package v1alpha1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// AcceptedDataLoss returns, by partition, the consents of the annotation
// heartwood.dev/accept-data-loss. The annotation is a list such as "3=<directory> 5=<directory>@7":
// for each partition the directory id of the disk whose records are to be used. If this disk does
// not replace a lost disk, @ and the leader epoch follow, so that a consent allows only one
// election. If the disk is to replace a lost volume and does not exist yet, the UID of the claim of
// the volume takes the place of the directory id, also with @ and the leader epoch. Words that
// cannot be parsed are ignored.
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

// Reassignments returns, by partition, the replicas that the annotation heartwood.dev/reassign
// requests, the preferred leader first. The annotation is a list such as "0=1,2,3 4=2,3,0". The
// error quotes the word that cannot be parsed.
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

// parsePartitionValue parses a word PARTITION=VALUE.
func parsePartitionValue(word string) (partition int32, value string, err error) {
	number, value, ok := strings.Cut(word, "=")
	index, err := strconv.ParseUint(number, 10, 31)
	if !ok || err != nil || value == "" {
		return 0, "", fmt.Errorf("%.50q: want PARTITION=VALUE", word)
	}
	return int32(index), value, nil
}
