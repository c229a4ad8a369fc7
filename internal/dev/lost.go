package dev

import (
	"fmt"
	"strconv"
	"strings"
)

// announceLost prints a line for each partition that is offline because its records are lost, with
// the possible remedies. The cluster runs without these partitions.
func (c *cluster) announceLost() {
	for _, p := range c.store.Lost() {
		brokers := make([]string, len(p.InSync))
		for i, id := range p.InSync {
			brokers[i] = strconv.Itoa(int(id))
		}
		c.print(fmt.Sprintf("offline %s-%d: broker %s has lost its records; stop the cluster, put the "+
			"files back if there is a copy, and start with --accept-data-loss, which continues with the "+
			"records that are there", p.Topic, p.Partition, strings.Join(brokers, ",")))
	}
}
