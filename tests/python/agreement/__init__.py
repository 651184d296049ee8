"""What runs, what is queried, what is planned and what is explained are one decision.

samples     calls of every op        questions   calls with their operands laid out on meshes
answers     the four answers to a question, and what they disagree about
"""
