package main

import "strings"

// streamedRoutes are the resources whose answers the template streams, in its own notation (a test compares the two).
var streamedRoutes = []string{
	"/api/chat/completions",
	"/api/v1/chat/completions",
	"/api/v1/chats",
	"/api/v1/chats/{proxy+}",
	"/api/tasks",
	"/api/tasks/{proxy+}",
}

const greedy = "{proxy+}"

// streamedRoute finds the resource that a path (still percent-encoded) belongs to, and what {proxy+} stands for in it.
func streamedRoute(path string) (resource, rest string, ok bool) {
	for _, route := range streamedRoutes {
		if prefix, is := strings.CutSuffix(route, greedy); is {
			if rest, below := strings.CutPrefix(path, prefix); below && rest != "" {
				return route, rest, true
			}
		} else if strings.TrimSuffix(path, "/") == route {
			return route, "", true
		}
	}
	return "", "", false
}
