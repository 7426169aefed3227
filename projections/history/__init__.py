"""Views of what happened besides the playbook and scores: entries' histories, votes, reflections, reviews."""
