package httpapi

// routes is the table of all routes. Tests derive from it, so a route that is not here does not exist.
func (s *server) routes() []Route {
	all := []Route{
		// What is there (spec/http.md B).
		{"GET", "/health", Open, s.health},
		{"GET", "/api/version", Open, s.version},
		{"GET", "/api/config", Open, s.config},

		// Accounts (spec/http.md A).
		{"POST", "/api/v1/auths/signin", Open, s.signIn},
		{"POST", "/api/v1/auths/signup", Open, s.signUp},
		{"POST", "/api/v1/auths/signout", Open, s.signOut},
		{"GET", "/api/v1/auths/signout", Open, s.signOut},
		{"GET", "/api/v1/auths", Person, s.session},
		{"POST", "/api/v1/auths/add", Admin, s.addAccount},
		{"GET", "/api/v1/auths/api_key", Known, s.readKey},
		{"POST", "/api/v1/auths/api_key", Known, s.replaceKey},
		{"DELETE", "/api/v1/auths/api_key", Known, s.deleteKey},
		{"POST", "/api/v1/auths/update/profile", Known, s.updateProfile},
		{"POST", "/api/v1/auths/update/timezone", Known, s.updateTimezone},
		{"POST", "/api/v1/auths/update/password", Person, s.updatePassword},
		{"GET", "/api/v1/auths/admin/details", Known, s.adminDetails},
		{"GET", "/api/v1/auths/admin/config", Admin, s.adminConfig},
		{"POST", "/api/v1/auths/admin/config", Admin, s.changeAdminConfig},
		{"GET", "/api/v1/users", Admin, s.listUsers},
		{"GET", "/api/v1/users/all", Admin, s.allUsers},
		{"GET", "/api/v1/users/search", User, s.allUsers},
		{"GET", "/api/v1/users/groups", User, s.ownGroups},
		{"GET", "/api/v1/users/permissions", User, s.ownPermissions},
		{"GET", "/api/v1/users/default/permissions", Admin, s.defaultPermissions},
		{"POST", "/api/v1/users/default/permissions", Admin, s.changeDefaultPermissions},
		{"GET", "/api/v1/users/user/settings", User, s.userSettings},
		{"POST", "/api/v1/users/user/settings/update", User, s.updateUserSettings},
		{"GET", "/api/v1/users/user/info", User, s.userInfo},
		{"GET", "/api/v1/users/{id}", Admin, s.readUser},
		{"GET", "/api/v1/users/{id}/groups", Admin, s.userGroups},
		{"POST", "/api/v1/users/{id}/update", Admin, s.updateUser},
		{"DELETE", "/api/v1/users/{id}", Admin, s.deleteUser},
		{"GET", "/api/v1/users/{id}/profile/image", User, s.userImage},
		{"GET", "/api/v1/groups", User, s.listGroups},
		{"POST", "/api/v1/groups/create", Admin, s.createGroup},
		{"GET", "/api/v1/groups/id/{id}", Admin, s.readGroup},
		{"POST", "/api/v1/groups/id/{id}/update", Admin, s.updateGroup},
		{"DELETE", "/api/v1/groups/id/{id}/delete", Admin, s.deleteGroup},
		{"POST", "/api/v1/groups/id/{id}/users", Admin, s.groupUsers},
		{"POST", "/api/v1/groups/id/{id}/users/add", Admin, s.addToGroup},
		{"POST", "/api/v1/groups/id/{id}/users/remove", Admin, s.removeFromGroup},

		// Models (spec/http.md B).
		{"GET", "/api/models", User, s.models},
		{"GET", "/api/v1/models", User, s.models},
		{"GET", "/api/v1/models/list", User, s.modelEntries},
		{"GET", "/api/v1/models/base", Admin, s.baseEntries},
		{"GET", "/api/v1/models/tags", User, s.modelTags},
		{"GET", "/api/v1/models/export", User, s.exportModels},
		{"POST", "/api/v1/models/create", User, s.createModel},
		{"GET", "/api/v1/models/model", User, s.readModel},
		{"POST", "/api/v1/models/model/update", User, s.updateModel},
		{"POST", "/api/v1/models/model/toggle", User, s.toggleModel},
		{"POST", "/api/v1/models/model/delete", User, s.deleteModel},
		{"POST", "/api/v1/models/model/access/update", User, s.grantModel},
		{"GET", "/api/v1/models/model/profile/image", User, s.modelImage},

		// Toolkits (spec/http.md C).
		{"GET", "/api/v1/tools", User, s.tools},
		{"GET", "/api/v1/tools/list", User, s.toolList},
		{"GET", "/api/v1/tools/export", User, s.exportTools},
		{"POST", "/api/v1/tools/create", User, s.createTool},
		{"POST", "/api/v1/tools/load/url", Admin, s.loadURL},
		{"GET", "/api/v1/tools/id/{id}", User, s.readTool},
		{"GET", "/api/v1/tools/id/{id}/specs", User, s.serverSpecs},
		{"POST", "/api/v1/tools/id/{id}/update", User, s.updateTool},
		{"POST", "/api/v1/tools/id/{id}/access/update", User, s.grantTool},
		{"DELETE", "/api/v1/tools/id/{id}/delete", User, s.deleteTool},
		{"GET", "/api/v1/tools/id/{id}/valves", User, s.valves},
		{"GET", "/api/v1/tools/id/{id}/valves/spec", User, s.valvesSpec},
		{"POST", "/api/v1/tools/id/{id}/valves/update", User, s.updateValves},
		{"GET", "/api/v1/tools/id/{id}/valves/user", User, s.userValves},
		{"GET", "/api/v1/tools/id/{id}/valves/user/spec", User, s.userValvesSpec},
		{"POST", "/api/v1/tools/id/{id}/valves/user/update", User, s.updateUserValves},
	}
	// What the web client asks for on its way in, and is content to find empty (spec/web-client-calls.md 2).
	for _, path := range []string{"configs/banners", "notes", "notes/pinned", "folders/shared", "functions", "skills",
		"prompts", "prompts/tags", "memories"} {
		all = append(all, Route{"GET", "/api/v1/" + path, User, empty})
	}
	all = append(append(all, s.chatRoutes()...), s.folderRoutes()...)
	if s.Servers != nil {
		all = append(all, s.serverRoutes()...)
	}
	if s.Live != nil {
		all = append(append(append(all, s.brokerRoutes()...), s.liveRoutes()...), s.consoleRoute())
	}
	return append(all, s.More...)
}
