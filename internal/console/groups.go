package console

import (
	"net/http"

	"heartwood.dev/heartwood/internal/console/kafka"
)

// groupList is the page Groups.
type groupList struct {
	Groups []kafka.Group
	More   bool // there are more groups than the page shows
}

func (c *Console) groups(r *http.Request) (view, error) {
	client, err := c.kafka()
	if err != nil {
		return view{}, err
	}
	var page groupList
	if page.Groups, page.More, err = client.Groups(r.Context()); err != nil {
		return view{}, err
	}
	return view{Template: "groups", Title: "Groups", Body: page}, nil
}

func (c *Console) group(r *http.Request) (view, error) {
	client, err := c.kafka()
	if err != nil {
		return view{}, err
	}
	name := r.URL.Query().Get("name")
	found, _, err := client.Groups(r.Context(), name)
	if err != nil {
		return view{}, err
	}
	if len(found) == 0 {
		return view{}, &fault{status: http.StatusNotFound,
			text: "There is no group with the name " + name + "."}
	}
	return view{Template: "group", Title: name, Page: "groups", Body: &found[0]}, nil
}
