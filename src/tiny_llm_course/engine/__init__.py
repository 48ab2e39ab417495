"""Run the engines built in the course: generation, chat, serving, known mistakes."""
