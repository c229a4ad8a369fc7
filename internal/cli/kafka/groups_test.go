package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestResetNeedsGroupWithoutMembers checks that a group is not reset if the coordinator does not
// describe it, because it may have members.
func TestResetNeedsGroupWithoutMembers(t *testing.T) {
	member := []kadm.DescribedGroupMember{{MemberID: "m"}}
	for _, test := range []struct {
		described kadm.DescribedGroups
		ok        bool
	}{
		{kadm.DescribedGroups{"g": {Group: "g"}}, true},
		{kadm.DescribedGroups{"g": {Group: "g", Err: kerr.GroupIDNotFound}}, true},
		{kadm.DescribedGroups{"g": {Group: "g", Members: member}}, false},
		{kadm.DescribedGroups{"g": {Group: "g", Err: kerr.GroupAuthorizationFailed}}, false},
		{kadm.DescribedGroups{"g": {Group: "g", Err: errors.New("closed")}}, false},
		{kadm.DescribedGroups{}, false},
	} {
		if err := inactiveClassic(test.described, "g"); err == nil != test.ok {
			t.Errorf("%+v: error %v", test.described, err)
		}
	}
}
