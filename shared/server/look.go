package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/mcp"
	"toolrounds/shared/tool"
)

// Listed is a tool server as those who may use it see it.
type Listed struct{ ID, Name, Description string }

// Listed lists the tool servers that the user may use and whose name contains the query in any case: the OpenAPI servers that are
// there, then the MCP servers, which are not asked.
func (s *Service) Listed(ctx context.Context, u access.User, query string) ([]Listed, error) {
	all, err := s.usable(ctx, u)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found := make([]*Listed, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		l := Listed{ID: c.ToolID(), Name: c.Name, Description: c.Description}
		if c.Type == typeMCP {
			found[i] = &l
			continue
		}
		wg.Go(func() {
			d, err := s.documentOf(limited, c, Who{User: u})
			if err != nil {
				return
			}
			if l.Name == "" {
				l.Name = d.Title()
			}
			if l.Description == "" {
				l.Description = d.Description()
			}
			found[i] = &l
		})
	}
	wg.Wait()
	list := []Listed{}
	for _, isMCP := range []bool{false, true} {
		for i, c := range all {
			if l := found[i]; l != nil && (c.Type == typeMCP) == isMCP && strings.Contains(strings.ToLower(l.Name), strings.ToLower(query)) {
				list = append(list, *l)
			}
		}
	}
	return list, nil
}

// specsTime is how long somebody waits who looks at the functions of an MCP server.
const specsTime = 15 * time.Second

// Specs lists the functions of an MCP server. Faults: NotFound (unknown, or not for this user), BadGateway, Timeout.
func (s *Service) Specs(ctx context.Context, u access.User, toolID string) ([]mcp.Tool, error) {
	c, ok, err := s.find(ctx, u, toolID)
	if err != nil {
		return nil, err
	}
	if !ok || c.Type != typeMCP {
		return nil, fault.New(fault.NotFound, "Tool not found")
	}
	at, err := s.mcp(ctx, c, Who{User: u})
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, specsTime)
	defer cancel()
	listing, err := s.MCP.List(limited, at)
	switch {
	case err != nil && errors.Is(limited.Err(), context.DeadlineExceeded):
		return nil, fault.Wrap(fault.Timeout, "Timed out loading tools", err)
	case err != nil:
		return nil, fault.Wrap(fault.BadGateway, "Unable to load tools", err)
	}
	return listing.Tools, nil
}

// Verify asks a tool server for what it offers before its connection is stored: the OpenAPI document as JSON, or the specs of an MCP
// server. Fault: Invalid (it does not answer so).
func (s *Service) Verify(ctx context.Context, u access.User, doc map[string]any) (document []byte, specs []tool.Spec, err error) {
	c, who := Parse(Tools, doc, 0), Who{User: u}
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	if c.Type == typeMCP {
		at, err := s.mcp(ctx, c, who)
		if err != nil {
			return nil, nil, err
		}
		listing, err := s.MCP.List(ctx, at)
		if err != nil {
			return nil, nil, fault.Wrap(fault.Invalid, "Failed to create MCP client", err)
		}
		specs = []tool.Spec{}
		for _, t := range listing.Tools {
			specs = append(specs, tool.Spec{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
		}
		return nil, specs, nil
	}
	d, err := s.documentOf(ctx, c, who)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Invalid, "Failed to connect to the tool server", err)
	}
	return d.JSON(), nil, nil
}
