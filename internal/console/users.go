package console

import (
	"cmp"
	"errors"
	"net/http"

	"heartwood.dev/heartwood/internal/console/kafka"
)

// aclsMax is the maximum number of ACLs on the page.
const aclsMax = 1000

// LogUser describes a LogUser resource on the API server.
type LogUser struct {
	Name, Principal, Authentication string
	ACLs                            int
	Ready                           bool
	Message                         string // message of condition Ready
}

// userList is the page Users.
type userList struct {
	LogUsers  []LogUser
	Users     []kafka.User
	ACLs      []kafka.ACL
	More      int // number of ACLs that are not shown
	Sort      sorting
	Unsecured bool   // true if the cluster has no authorization
	Fault     string // reason why a part of the page is missing
}

var aclColumns = []column[kafka.ACL]{
	{"principal", func(a, b *kafka.ACL) int { return cmp.Compare(a.Principal, b.Principal) }},
	{"operation", func(a, b *kafka.ACL) int { return cmp.Compare(a.Operation, b.Operation) }},
	{"resource", func(a, b *kafka.ACL) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	}},
}

// users returns the page of users and ACLs. It reads LogUsers from the API server with the user's
// token, and everything else from the brokers.
func (c *Console) users(r *http.Request) (view, error) {
	if err := c.mayDo(r, ListUsers); err != nil {
		return view{}, err
	}
	page := userList{}
	faults := []error{c.readUsers(r, &page)}
	if c.opts.Authority != nil {
		var err error
		page.LogUsers, err = c.opts.Authority.LogUsers(r.Context(), callerOf(r).token,
			c.opts.LogCluster)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		page.Fault = err.Error()
	}
	page.Sort = sorted("users", r.URL.Query(), page.ACLs, aclColumns)
	if page.More = len(page.ACLs) - aclsMax; page.More > 0 {
		page.ACLs = page.ACLs[:aclsMax]
	}
	return view{Template: "users", Title: "Users", Body: page}, nil
}

// readUsers sets the fields that are read from the brokers.
func (c *Console) readUsers(r *http.Request, page *userList) error {
	client, err := c.kafka()
	if err != nil {
		return err
	}
	page.ACLs, err = client.ACLs(r.Context())
	if page.Unsecured = errors.Is(err, kafka.ErrUnsecured); page.Unsecured {
		return nil
	}
	users, failed := client.Users(r.Context())
	page.Users = users
	return errors.Join(err, failed)
}
