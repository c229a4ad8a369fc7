package kafkaclient

import (
	"cmp"
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrNoAnswer means that a response does not contain the group or partition.
var ErrNoAnswer = errors.New("the response does not contain it")

// DescribeConsumer describes groups of the consumer protocol (KIP-848). For a classic protocol
// group, or a group that does not exist, the error is GROUP_ID_NOT_FOUND (Classic). The result
// contains every group.
func DescribeConsumer(ctx context.Context, admin *kadm.Client,
	names ...string) kadm.DescribedConsumerGroups {
	described, err := admin.DescribeConsumerGroups(ctx, names...)
	if described == nil {
		described = kadm.DescribedConsumerGroups{}
	}
	_, denied := errors.AsType[*kadm.AuthError](err)
	for _, name := range names {
		group, found := described[name]
		if !found && denied && len(names) > 1 {
			// If the user may not describe one group, the description of all groups fails, so describe each
			// separately.
			group, found = DescribeConsumer(ctx, admin, name)[name], true
		}
		if !found {
			group = kadm.DescribedConsumerGroup{Group: name, Err: cmp.Or(err, ErrNoAnswer)}
		}
		described[name] = group
	}
	return described
}

// Classic reports whether a group does not use the consumer protocol.
func Classic(group kadm.DescribedConsumerGroup) bool {
	return errors.Is(group.Err, kerr.GroupIDNotFound)
}
