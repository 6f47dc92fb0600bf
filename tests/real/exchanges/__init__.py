"""Raw requests that are sent to both servers, a module for each subject."""
